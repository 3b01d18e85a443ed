"""Specs and code lists that change between runs or during one, and which file is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import LedgerError, PublicationError
from tabularium.tasks.runtime.run import Run, load
from tests.flows.release.scene import publish, publish_with, states, write_scene


def test_a_spec_edited_after_it_was_paid_for_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)

    def edit() -> None:
        spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "5"'))
        # As in another process, which reads the spec anew.
        monkeypatch.setattr(Run, "loaded", property(lambda run: load(run.request)))

    with pytest.raises(LedgerError, match="another spec or amount"):
        publish_with(edit, before="measure", spec=spec, home=home)
    assert states(home) == ["reserved"]


def test_an_edited_spec_is_read_again_by_the_next_run(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    first = publish(spec, home)
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "2"'))
    second = publish(spec, home)
    assert (first.status, second.status) == ("published", "published")
    assert first.release_id != second.release_id


def test_a_file_name_with_a_bracket_is_that_file_alone(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, rows=600, budget="10")
    (tmp_path / "people.csv").rename(tmp_path / "people1.csv")
    few = "area,age,sex\n" + "A1,30,1\n" * 20
    (tmp_path / "people[1].csv").write_text(few)
    outcome = publish(spec, home, source=tmp_path / "people[1].csv")
    certificate = json.loads((Path(outcome.folder) / "certificate.json").read_text())
    # 20 is more than 60 times the scale of the noise.
    assert abs(certificate["tables"]["age_sex"]["total"] - 20) < 20


def test_a_code_list_edited_during_a_run_is_not_published(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    codes = tmp_path / "areas.csv"
    good = codes.read_text()

    def edit() -> None:
        codes.write_text(good.replace("Alpha one", "Alpha two"))

    with pytest.raises(PublicationError, match="code list changed during the run"):
        publish_with(edit, before="publish", spec=spec, home=home)
    assert states(home) == ["measured"]
    codes.write_text(good)
    assert publish(spec, home).status == "published"
