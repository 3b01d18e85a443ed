"""A release that is drawn towards the level above, from its spec to its verification by a stranger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.certificate import CERTIFICATE
from tests.flows.release.scene import publish
from tests.flows.release.test_drawn_to_prior import fine, not_checked, with_prior


def test_it_is_told_and_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 8)
    spec, home = fine(tmp_path, "pure")
    with_prior(spec, "above")
    folder = Path(publish(spec, home).folder)
    certificate = json.loads((folder / CERTIFICATE).read_bytes())
    told = certificate["tables"]["area_age_sex"]
    assert told["margins"]["method"] == "above"
    assert told["above"]["cells"] > 0
    assert [each["step"] for each in certificate["postprocessing"]["steps"]][:2] == ["mechanism", "above"]
    report = (folder / "report.html").read_text()
    assert "areas look more similar than they are" in report
    books = tmp_path / "books.jsonl"
    with Ledger.connect(home.ledger_url) as ledger:
        export(ledger, books)
    findings = list(verify_release(Subject(folder, export=books)))
    assert not not_checked(findings)
    assert any(
        "follow from the noisy measurements" in each.what and each.outcome == "checked" for each in findings
    )
