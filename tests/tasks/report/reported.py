"""Two small releases that the tests of the report read, and texts of the page."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

from tabularium.tasks.publish.documents import without_documents
from tabularium.tasks.report.report import report
from tabularium.validations.certificate import Certificate
from tests.flows.release.scene import publish, write_scene

HOSTILE = '<script>alert(1)</script> & "quoted" $\\frac{1}$'


def two_periods(folder: Path, about: str = "") -> tuple[Path, Path]:
    """Publish two periods of the small product; return their folders."""
    spec, home = write_scene(folder)
    spec.write_text(spec.read_text() + about)
    return tuple(Path(publish(spec, home, period=period).folder) for period in ("2025", "2026"))  # type: ignore[return-value]


def copied(release: Path, to: Path) -> Path:
    """Copy a release to where the test may change it."""
    shutil.copytree(release, to)
    for path in (to, *to.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return to


def describe_measure(folder: Path) -> dict[str, Any]:
    """Return the certificate as a document is told of it."""
    certificate = Certificate.read((folder / "certificate.json").read_bytes())
    return without_documents(certificate).document()


def lines(page: bytes) -> list[str]:
    """Return the text of a page, one line for each row of a table, without pictures and styles."""
    text = re.sub(r"(?s)<(style|svg).*?</\1>", "", page.decode())
    text = re.sub(r"\n", " ", text)
    text = re.sub(r"</(tr|p|li|h\d|dd|dt|div)>", "\n", text)
    plain = unescape(re.sub(r"<[^>]*>", " ", text))
    return [line for each in plain.split("\n") if (line := " ".join(each.split()))]


def rendered(folder: Path, told: dict[str, Any] | None = None, last: Path | None = None) -> list[str]:
    """Return the lines of the report of a folder."""
    return lines(report(folder, Certificate.of(told or describe_measure(folder)), last))
