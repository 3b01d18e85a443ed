"""``tabularium plan``: what it prints, draws and writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tabularium as tb
from tabularium.flows.cli.app import app
from tabularium.validations.release_spec.load import load_spec
from tests.certificates import made_up
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "plan-a-budget.md"
LISTS = DOCS / "reference" / "spec" / "levels.md"


def tabularium(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "100"})


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The spec of the page; its source does not exist."""
    path = tmp_path / "persons.yaml"
    path.write_text(next(block.text for block in blocks(PAGE) if block.kind == "yaml"))
    codes = next(block.text for block in blocks(LISTS) if 'title="areas.csv"' in block.mark)
    (tmp_path / "areas.csv").write_text(codes)
    return path


def test_the_page_shows_what_is_printed_and_drawn(spec: Path) -> None:
    picture = spec.with_name("plan.svg")
    done = tabularium("plan", spec, "--plot", picture)
    assert done.exit_code == 0, done.output
    shown = next(block.text for block in blocks(PAGE) if block.kind == "text")
    printed = [line.rstrip() for line in done.output.splitlines()]
    assert [line for line in printed if line and not line.startswith("Written")] == [
        line for line in shown.splitlines() if line
    ]
    text = picture.read_text()
    assert all(f">{name}<" in text for name in ("age_by_area", "age_by_sex", "nation", "region", "district"))
    on_the_page = (DOCS / "pictures" / "plan.svg").read_text()
    words = re.compile(r"<text[^>]*>([^<]*)<")
    assert words.findall(text) == words.findall(on_the_page), "python -m tests.docs.pictures draws it again"
    again = spec.with_name("again.svg")
    tabularium("plan", spec, "--plot", again)
    assert again.read_bytes() == picture.read_bytes()


def test_a_new_file_beside_it_or_the_file_itself(spec: Path) -> None:
    before = spec.read_text()
    other = spec.with_name("planned.yaml")
    done = tabularium("plan", spec, "--out", other, "--json")
    assert done.exit_code == 0, done.output
    assert spec.read_text() == before
    said = json.loads(done.output)
    planned = load_spec(other).spec
    assert said["budget"] == str(planned.privacy.budget)
    assert {each["name"]: each["share"] for each in said["tables"]} == {
        table.name: str(table.share) for table in planned.tables
    }
    assert tabularium("check", other).exit_code == 0
    refused = tabularium("plan", spec, "--out", other)
    assert refused.exit_code == 1
    assert "this file exists" in refused.output
    assert tabularium("plan", spec, "--write", "--budget", "1/7").exit_code == 0
    assert 'budget: "1/7"' in spec.read_text()
    assert sorted(path.name for path in spec.parent.iterdir()) == [
        "areas.csv",
        "persons.yaml",
        "planned.yaml",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "elsewhere/planned.yaml"], "write it next to persons.yaml"),
        (["--out", "planned.yaml", "--write"], "two files"),
        (["--budget", "0"], "this is no budget"),
        (["--budget", "much"], "this is no budget"),
        (["--plot", "plan.gif"], "is no picture"),
        (["--like", "nowhere"], "no release lies in this folder"),
        (["--mechanisms"], "tried on public counts"),
        (["--bounds"], "bounds are proposed by a release"),
        (["--budget", "3000000"], "leaves no noise at all"),
    ],
)
def test_what_is_refused(spec: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.parent)
    done = tabularium("plan", spec, *words)
    assert done.exit_code == 1
    assert said in re.sub(r"\s+", " ", done.output)
    assert not list(spec.parent.glob("plan*"))


def test_a_prior_is_said_to_be_left_out(spec: Path) -> None:
    release = "0123456789abcdef" * 2
    place = spec.parent / "releases" / "persons" / "2025" / release
    place.mkdir(parents=True)
    earlier, files = load_spec(spec).published_spec, {"age_by_sex.csv": "0" * 64}
    certificate = made_up(release_id=release, spec=earlier, files=files)
    (place / "certificate.json").write_bytes(certificate.written())
    text = spec.read_text().replace("dimensions: [age, sex]", f"dimensions: [age, sex], prior: {release}")
    spec.write_text(text + "publication: {folder: releases}\n")
    done = tabularium("plan", spec)
    assert "Planned without their prior: age_by_sex." in done.output, done.output


def test_the_api_plans_alike(spec: Path) -> None:
    found = tb.plan(spec)
    assert found.as_dict() == json.loads(tabularium("plan", spec, "--json").output)
    assert found.targets[found.targets["wanted"].notna()].eval("margin <= wanted").all()
    assert list(found.trade_off.columns[1:]) == sorted(found.trade_off.columns[1:])
    saved = found.save(spec.with_name("saved.yaml"))
    assert (saved.budget, saved.path.read_text()) == (found.budget, found.spec)
    assert "<table" in found._repr_html_()
    halved = tb.plan(spec, budget=found.budget / 2)
    assert (halved.targets["margin"] > found.targets["margin"]).all()
