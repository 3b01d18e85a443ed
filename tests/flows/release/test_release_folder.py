"""Cases in which a release once was, or could have been, wrong; each must stay impossible."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tasks.runtime.run
from ledger import Ledger
from mechanisms.errors import LedgerError, MechanismError, PublicationError, TabulariumError
from tasks.runtime.home import Home
from tasks.runtime.progress import reporting_to
from tests.flows.release.scene import publish, publish_with, write_scene


def states(home: Home) -> list[str]:
    with Ledger.connect(home.ledger_url) as books:
        return [charge.state for charge in books.charges("people")]


def test_a_spec_edited_after_it_was_paid_for_is_not_drawn(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)

    def edit() -> None:
        spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "5"'))
        tasks.runtime.run._specs.clear()  # as in another process, which reads the spec anew

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


def test_a_lost_secret_stops_the_run_instead_of_paying_twice(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    (home.path / "secret").unlink()
    with pytest.raises(TabulariumError, match="secret is missing"):
        publish(spec, home)
    assert states(home) == ["published"]


def test_a_file_name_with_a_bracket_is_that_file_alone(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, rows=600, budget="10")
    (tmp_path / "people.csv").rename(tmp_path / "people1.csv")
    few = "area,age,sex\n" + "A1,30,1\n" * 20
    (tmp_path / "people[1].csv").write_text(few)
    outcome = publish(spec, home, source=tmp_path / "people[1].csv")
    certificate = json.loads((Path(outcome.folder) / "certificate.json").read_text())
    assert abs(certificate["tables"]["age_sex"]["total"] - 20) < 20


def test_a_failing_warning_is_told(tmp_path: Path) -> None:
    class Listening:
        heard: list[str] = []  # noqa: RUF012

        def started(self, stage: str) -> None: ...
        def finished(self, stage: str, seconds: float, peak_mib: float) -> None: ...
        def failed(self, stage: str) -> None: ...
        def noted(self, text: str) -> None:
            self.heard.append(text)

    spec, home = write_scene(tmp_path, rules="[{rule: row_count, max: 10, severity: warn}]")
    with reporting_to(Listening()):
        assert publish(spec, home).status == "published"
    assert Listening.heard == ["the microdata break the rule row_count, which only warns"]


def test_published_folders_can_be_read_and_the_umask_is_as_before(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    before = os.umask(0o027)
    try:
        folder = Path(publish(spec, home).folder)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    for path in (folder, *list(folder.parents)[:3]):
        assert path.stat().st_mode & 0o777 == 0o755, path


def test_foreign_files_and_a_moved_folder_are_told_apart(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    folder = Path(publish(spec, home).folder)
    (folder / "extra.txt").write_text("")
    with pytest.raises(PublicationError, match=r"extra\.txt' is no part"):
        publish(spec, home)
    (folder / "extra.txt").unlink()
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(PublicationError, match="no release lies in this folder"):
        publish(spec, home)


def test_a_budget_beyond_the_sampler_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/360360000000")
    with pytest.raises(MechanismError, match="noise scale"):
        publish(spec, home)
    assert states(home) == []


def test_a_budget_off_the_quantum_is_refused_before_data_are_read(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/17")
    (tmp_path / "people.csv").unlink()
    with pytest.raises(LedgerError, match="multiple of the account's quantum"):
        publish(spec, home)


def test_seeded_noise_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tasks.measure
    from mechanisms.channel import SeededChannel

    spec, home = write_scene(tmp_path)
    monkeypatch.setattr(
        tasks.measure, "SecureChannel", lambda budget, **kind: SeededChannel(budget, seed=1, **kind)
    )
    with pytest.raises(PublicationError, match="seeded stream"):
        publish(spec, home)
    assert not list((tmp_path / "releases" / "small" / "2026").iterdir())


def test_a_read_only_publication_folder_is_found_before_anything_is_paid(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    (tmp_path / "releases").write_text("a file where the folder should be")
    with pytest.raises(PublicationError, match="nothing was charged"):
        publish(spec, home)
    assert states(home) == []


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


def test_a_renamed_folder_is_adopted_only_if_it_says_what_the_ledger_says(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)

    def dies() -> None:
        raise RuntimeError("between the rename and the books")

    with pytest.raises(TabulariumError):
        publish_with(dies, before="close the charge", spec=spec, home=home)
    (path,) = (tmp_path / "releases" / "small" / "2026").glob("*/certificate.json")
    good = path.read_text()
    path.chmod(0o644)
    path.write_text(good.replace('"amount": "1"', '"amount": "1/2"'))
    with pytest.raises(PublicationError, match="differs from the ledger"):
        publish(spec, home)
    assert states(home) == ["measured"]
    path.write_text(good)
    assert publish(spec, home).status == "published"
