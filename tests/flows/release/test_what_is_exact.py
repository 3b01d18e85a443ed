"""What a release says exactly: listed first, approved where an account asks for it, and no more than is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger, NotApproved
from tests.flows.release.scene import AREAS, publish, write_scene
from tests.flows.release.test_resumed_parts import bounded_scene

FIXED = "[{rule: row_count, min: 600, max: 600}]"


def test_it_stands_before_the_reading_which_is_of_a_replacement(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, rules=FIXED)
    text = (Path(publish(spec, home).folder) / "certificate.json").read_text()
    found = json.loads(text)
    assert text.index('"outside_the_guarantee"') < text.index('"privacy"') < text.index('"reading"')
    said = {fact["kind"]: fact["what"] for fact in found["outside_the_guarantee"]}
    assert said["rule"] == "row_count: at least 600 and at most 600 rows"
    assert said["limit"] == "max_rejected: no record was rejected"
    assert said["attempts"] == "that its noise was drawn in one attempt"
    assert "operators" in said
    assert found["privacy"]["epsilon"] == "1"
    assert found["privacy"]["neighbours"] == {
        **{"fixed": "total", "change": "replace", "units": 1},
        "epsilon": "2",
    }
    assert "both satisfy the exact rules" in found["privacy"]["reading"][0]
    assert "costs ε = 2" in found["privacy"]["reading"][1]
    folder = publish(spec, home).folder
    asked = CliRunner().invoke(app, ["query", folder, "count", "--bounds", "--json"])
    assert "none" in json.loads(asked.stdout)["posterior"], "nobody can be absent where the total is known"


def test_check_warns_of_each_fact_on_a_line_of_its_own(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path, rules=FIXED)
    shown = CliRunner().invoke(app, ["check", str(spec)], env={"COLUMNS": "200"})
    printed = [line.rstrip() for line in shown.stdout.splitlines()]
    (first,) = (place for place, line in enumerate(printed) if line.startswith("Outside the guarantee: "))
    lines = printed[first + 1 : first + 4]
    assert [line.split(": ")[0] for line in lines[:2]] == ["  max_rejected", "  row_count"]
    assert "costs ε = 2" in lines[2]


def test_nothing_is_said_to_be_outside_where_nothing_is(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path, max_rejected="100%")
    shown = CliRunner().invoke(app, ["check", str(spec)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "Outside" not in shown.stdout


def test_check_has_facts_as_json(tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path, rules=FIXED)
    summary = json.loads(CliRunner().invoke(app, ["check", str(spec), "--json"]).stdout)["summary"]
    assert [fact["kind"] for fact in summary["outside_the_guarantee"]] == ["limit", "rule"]
    assert summary["neighbours"]["units"] == 1


def test_an_account_may_ask_an_officer_about_exact_facts(tmp_path: Path) -> None:
    """Before any data are read: a spec with a limit waits, one that states nothing exact goes through."""
    spec, home = write_scene(tmp_path)
    with Ledger.connect(home.ledger_url) as books:
        books.change_account("people", approve_exact=True, reason="exact facts are the officer's")
    people = (tmp_path / "people.csv").rename(tmp_path / "away.csv")
    with pytest.raises(NotApproved, match="no disclosure officer has approved this spec"):
        publish(spec, home)
    people.rename(tmp_path / "people.csv")
    spec.write_text(spec.read_text().replace("max_rejected: 0", 'max_rejected: "100%"'))
    assert publish(spec, home).status == "published"
    with Ledger.connect(home.ledger_url) as books:
        assert [charge.exact for charge in books.charges("people")] == [False]
        books.verify()


def test_further_columns_of_a_code_list_are_not_published(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    rows = [f"{line},{note}" for line, note in zip(AREAS.splitlines(), ["contact", *"123456"], strict=True)]
    (tmp_path / "areas.csv").write_text("\n".join(rows) + "\n")
    folder = Path(publish(spec, home).folder)
    assert (folder / "codes" / "areas.csv").read_text() == AREAS
    (tmp_path / "areas.csv").write_text("\n".join(rows).replace(",1", ",x") + "\n")
    assert publish(spec, home).status == "already published", "what is published has not changed"


def test_check_shows_the_bounds_of_rules_that_are_no_facts(tmp_path: Path) -> None:
    rules = '[{rule: row_count, min: 7, noisy: {share: "1/9"}}, {rule: range, column: age, max: 98, severity: warn}]'
    shown = CliRunner().invoke(
        app, ["check", str(write_scene(tmp_path, rules=rules)[0])], env={"COLUMNS": "200"}
    )
    assert "Rule row_count: at least 7 privacy units, by their noisy number" in shown.stdout
    assert "Rule range(age), which only warns: all values are at most 98" in shown.stdout


def test_where_units_lose_records_every_answer_says_so(tmp_path: Path) -> None:
    plain = publish(*write_scene(tmp_path / "plain")).folder
    folder = publish(*bounded_scene(tmp_path / "bounded")).folder
    for words in ([folder, "count"], [folder]):
        for more in ([], ["--json"]):
            assert (
                "at most 2 records of each unit (who)"
                in CliRunner().invoke(app, ["query", *words, *more]).stdout
            )
    assert "Totals" not in CliRunner().invoke(app, ["query", plain, "count"]).stdout, (
        "every record is counted"
    )
