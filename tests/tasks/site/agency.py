"""A small agency's folder of releases: revised, withdrawn, under two definitions, with titles nobody trusts."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.flows.release_chain import release_tables
from tabularium.tasks.runtime.run import Request
from tests.flows.release.scene import publish, write_scene
from tests.tasks.report.reported import HOSTILE

REVISED, WITHDRAWN = "late questionnaires", "a region was coded <twice>"
_ABOUT = """\
about:
  title: {title}
  description: {description}
  curator: {{name: "Office & Sons", url: "https://example.org/", email: data@example.org}}
  region: {{code: XA, label: Exämplia}}
  licence: https://creativecommons.org/licenses/by/4.0/
  keywords: [population, "age, and sex"]
"""


@dataclass(frozen=True)
class Agency:
    """Where its releases lie, and their ids: superseded and current of 2026, withdrawn of 2025, hostile."""

    releases: Path
    first: str
    second: str
    withdrawn: str
    hostile: str


def command(*words: str | Path) -> Any:
    """Call the command line, which does well, and return what it prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def an_agency(folder: Path) -> Agency:
    """Publish two products, four releases in all."""
    spec, home = write_scene(folder / "a", rows=60)
    about = _ABOUT.format(title="Persons by age and sex", description="Persons of a small country.")
    _adapt(spec, "persons", about + "  url: https://example.org/persons\n")
    key = folder / "officer.pem"
    at = ("--home", home.path)
    command("ledger", "keys", "new", key)
    command("ledger", "keys", "enrol", key.with_suffix(".pub.pem"), "--officer", "A. Ro", "--key", key, *at)
    withdrawn = publish(spec, home, period="2025").release_id
    first = publish(spec, home).release_id
    words = (spec, "--revises", REVISED, *at)
    command("ledger", "approve", *words, "--key", key)
    request = Request.of(spec, None, None, home.path, REVISED, same_input=True)
    second = release_tables(request).release_id
    command("withdraw", withdrawn, "--reason", WITHDRAWN, "--key", key, *at)

    spec, home = write_scene(folder / "b", rows=60, definition="zcdp", budget="1/10", cap="1/2")
    _adapt(spec, "hostile", _ABOUT.format(title=json.dumps(HOSTILE), description=json.dumps(HOSTILE)))
    hostile = publish(spec, home, period="2026-01").release_id
    return Agency(folder / "releases", first, second, withdrawn, hostile)


def _adapt(spec: Path, product: str, about: str) -> None:
    text = spec.read_text().replace("product: small", f"product: {product}")
    formats = "{folder: ../releases, formats: [csv, parquet, catalogue]}"
    spec.write_text(text.replace("{folder: releases}", formats) + about)


def copied_releases(releases: Path, to: Path) -> Path:
    """Copy a folder of releases to where a test may change it."""
    shutil.copytree(releases, to, symlinks=True)
    for path in (to, *to.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return to
