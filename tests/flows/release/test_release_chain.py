"""The chain of stages, plainly called: what comes out, and what a second run does."""

from __future__ import annotations

import json
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tabularium.flows.release_chain
import tabularium.tasks.count.count
import tabularium.tasks.measure
import tabularium.tasks.postprocess.agreement
from tabularium.flows.release_chain import Outcome
from tabularium.ledger import BudgetExhausted, Ledger
from tabularium.mechanisms.errors import (
    InternalError,
    LedgerError,
    PublicationError,
    RuleFailed,
    TabulariumError,
)
from tabularium.mechanisms.histograms.cellwise import Identity
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import reporting_to
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish, publish_with, write_scene

# One worker for the whole file: what its tests look at is made once.
pytestmark = pytest.mark.xdist_group("chain")


def charges(home: Home) -> list[Any]:
    with Ledger.connect(home.ledger_url) as books:
        return list(books.charges("people"))


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a later stage fails")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Home, Outcome]:
    spec, home = write_scene(tmp_path_factory.mktemp("published"), rows=3000)
    return spec, home, publish(spec, home)


def test_a_release_holds_tables_measurements_and_a_certificate(published: tuple[Path, Home, Outcome]) -> None:
    folder = Path(published[2].folder)
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "area_age_sex.csv",
        "area_age_sex.csv-metadata.json",
        "area_age_sex.parquet",
        "age_sex.csv",
        "age_sex.csv-metadata.json",
        "age_sex.parquet",
        "measurements/area_age_sex.nation.parquet",
        "measurements/area_age_sex.province.parquet",
        "measurements/area_age_sex.place.parquet",
        "measurements/age_sex.parquet",
        "measurements/measurements.json",
        "codes/areas.csv",
        "bill-of-materials.cdx.json",
        "report.html",
        "certificate.json",
    }
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in folder.rglob("*") if path.is_file())
    assert not list(published[1].workspaces.iterdir())


def test_stages_in_other_processes_and_called_twice_publish_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was pickled knows nothing of the steps that another process took."""

    def elsewhere_and_twice(stage: Any) -> Any:
        def call(run: Run, *handles: Any) -> None:
            stage(pickle.loads(pickle.dumps(run)), *handles)
            stage(pickle.loads(pickle.dumps(run)), *handles)

        return call

    for name in ("make_consistent", "make_nonnegative", "make_whole", "find_margins", "check"):
        stage = getattr(tabularium.flows.release_chain, name)
        monkeypatch.setattr(tabularium.flows.release_chain, name, elsewhere_and_twice(stage))
    spec, home = write_scene(tmp_path, rows=3000)
    outcome = publish(spec, home)
    found = list(verify_release(Subject(Path(outcome.folder))))
    assert [finding for finding in found if finding.outcome == "failed"] == []
    assert sum(finding.outcome == "checked" for finding in found) > 10


def test_published_tables_are_whole_nonnegative_and_additive(published: tuple[Path, Home, Outcome]) -> None:
    frame = pd.read_csv(Path(published[2].folder) / "area_age_sex.csv", dtype={"sex": str})
    assert list(frame.columns) == [
        "level",
        "area",
        "area_label",
        "age",
        "sex",
        "sex_label",
        "count",
        "margin",
    ]
    assert len(frame) == (1 + 2 + 3) * 3 * 2
    assert frame["count"].dtype == np.int64
    assert (frame["count"] >= 0).all()
    cells = frame.pivot_table(index="area", columns=["age", "sex"], values="count", observed=True)
    assert (cells.loc["A1"] + cells.loc["A2"] == cells.loc["A"]).all()
    assert (cells.loc["B1"] == cells.loc["B"]).all()
    assert (cells.loc["A"] + cells.loc["B"] == cells.loc["N"]).all()


def test_each_row_speaks_of_its_own_cell(tmp_path: Path) -> None:
    """Cell k holds about 100 k records and the noise is about 1: no axis or label can be swapped.

    The largest scale of the noise is 0.6: it reaches 30 in one of 10^20 runs.
    """
    cells = [(a, g, s) for a in ("A1", "A2", "B1") for g in ("7", "33", "80") for s in ("1", "2")]
    spec, home = write_scene(
        tmp_path, rows=0, budget="10", extra=[cell for k, cell in enumerate(cells) for _ in range(100 * k)]
    )
    folder = Path(publish(spec, home).folder)
    ages = {"7": "0-19", "33": "20-64", "80": "65-99"}
    wanted = {(a, ages[g], s): 100 * k for k, (a, g, s) in enumerate(cells)}
    frame = pd.read_csv(folder / "area_age_sex.csv", dtype={"sex": str})
    found = frame[frame["level"] == "place"].set_index(["area", "age", "sex"])["count"].to_dict()
    assert found.keys() == wanted.keys()
    assert all(abs(found[key] - count) < 30 for key, count in wanted.items())
    whole = pd.read_parquet(folder / "age_sex.parquet").set_index(["age", "sex"])["count"]
    for (age, sex), count in whole.items():
        assert abs(count - sum(n for (_, g, s), n in wanted.items() if (g, s) == (age, sex))) < 30
    labels = dict(zip(frame["area"], frame["area_label"], strict=True))
    assert (labels["A1"], labels["N"]) == ("Alpha one", "Nation")
    assert dict(zip(frame["sex"], frame["sex_label"], strict=True)) == {"1": "male", "2": "female"}


def test_the_certificate_says_what_was_spent_and_drawn(published: tuple[Path, Home, Outcome]) -> None:
    certificate = json.loads((Path(published[2].folder) / "certificate.json").read_text())
    assert certificate["privacy"]["epsilon"] == "1"
    assert certificate["ledger"]["attempts"] == 1
    losses = {event["purpose"]: event["loss"] for event in certificate["transcript"]}
    assert sorted(losses.values()) == ["1/3", "1/3", "1/6", "1/6"]
    assert certificate["revises"] is None
    assert str(published[0].parent) not in json.dumps(certificate), "where the data lie is nobody's business"


def test_the_same_release_again_is_the_same_charge(published: tuple[Path, Home, Outcome]) -> None:
    spec, home, first = published
    again = publish(spec, home)
    assert again.status == "already published"
    assert again.folder == first.folder
    assert len(charges(home)) == 1


def test_moving_the_input_changes_nothing(published: tuple[Path, Home, Outcome], tmp_path: Path) -> None:
    spec, home, first = published
    moved = tmp_path / "elsewhere.csv"
    moved.write_bytes((spec.parent / "people.csv").read_bytes())
    outcome = publish(spec, home, source=moved)
    assert (outcome.status, outcome.release_id) == ("already published", first.release_id)


def test_an_altered_release_is_noticed(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    outcome = publish(spec, home)
    table = Path(outcome.folder) / "age_sex.csv"
    table.chmod(0o644)
    table.write_text(table.read_text().replace("male", "Male", 1))
    with pytest.raises(PublicationError, match=r"age_sex\.csv is missing or altered"):
        publish(spec, home)


def test_a_failing_later_stage_costs_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, home = write_scene(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tabularium.tasks.postprocess.agreement.Agreement, "whole", fail)
        with pytest.raises(InternalError):
            publish(spec, home)
    (before,) = charges(home)
    assert before.state == "measured"
    assert not list(home.workspaces.iterdir())
    # Whatever the next run does, it must not look at the data again.
    monkeypatch.setattr(tabularium.tasks.count.count, "count_tables", fail)
    monkeypatch.setattr(tabularium.tasks.measure, "SecureChannel", fail)
    assert publish(spec, home).status == "published"
    (after,) = charges(home)
    assert (after.fence, after.measurement_digest) == (1, before.measurement_digest)


@pytest.mark.parametrize("harm", ["lost", "altered"])
def test_a_harmed_measurement_stops_the_run_and_is_never_drawn_again(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tabularium.tasks.postprocess.agreement.Agreement, "whole", fail)
        with pytest.raises(InternalError):
            publish(spec, home)
    (charge,) = charges(home)
    file = home.measurements / charge.release_id / str(charge.fence)
    good = file.read_bytes()
    file.unlink()
    if harm == "altered":
        file.write_bytes(good[:-50] + bytes([good[-50] ^ 1]) + good[-49:])
    monkeypatch.setattr(tabularium.tasks.measure, "SecureChannel", fail)
    with pytest.raises(TabulariumError):
        publish(spec, home)
    assert charges(home)[0].state == "measured"
    file.unlink(missing_ok=True)
    file.write_bytes(good)
    assert publish(spec, home).status == "published"


def test_a_mechanism_that_raises_after_it_drew_has_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    original = Identity.draw

    def draws_then_raises(self: Identity, counts: Any, channel: Any) -> Any:
        drawn = original(self, counts, channel)
        if counts.any():  # not in the dry run on empty tables
            raise ValueError("after the draw")
        return drawn

    with monkeypatch.context() as patch:
        patch.setattr(Identity, "draw", draws_then_raises)
        with pytest.raises(TabulariumError):
            publish(spec, home)
    assert charges(home)[0].state == "abandoned"
    with Ledger.connect(home.ledger_url) as books:
        assert books.balance("people") == 9
    with pytest.raises(LedgerError, match="abandoned"):
        publish(spec, home)


def test_without_budget_the_data_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, home = write_scene(tmp_path, cap="1/2")
    monkeypatch.setattr(tabularium.tasks.count.count, "count_tables", fail)
    with pytest.raises(BudgetExhausted):
        publish(spec, home)
    assert not charges(home)
    assert not (tmp_path / "releases").exists()


def test_another_unit_than_the_accounts_is_refused(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("relation: add-remove", "relation: replace"))
    with pytest.raises(LedgerError, match="relation"):
        publish(spec, home)


def test_without_post_processing_the_measurements_are_published_as_they_are(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    off = "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
    spec.write_text(
        spec.read_text().replace(
            'levels: {nation: "1/4", province: "1/4", place: "1/2"}', 'levels: {nation: "1/2", place: "1/2"}'
        )
        + off
    )
    folder = Path(publish(spec, home).folder)
    frame = pd.read_parquet(folder / "area_age_sex.parquet")
    assert set(frame["level"]) == {"nation", "place"}, "what was not measured follows from nothing"
    drawn = pd.read_parquet(folder / "measurements" / "area_age_sex.place.parquet")
    assert (frame[frame["level"] == "place"]["count"].to_numpy() == drawn["measured"].to_numpy()).all()


def test_a_full_disk_at_publication_leaves_nothing_half_written(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def disk_fills_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))

    try:
        with pytest.raises(PublicationError, match="could not be written") as caught:
            publish_with(disk_fills_up, before="publish", spec=spec, home=home)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "releases" / "small" / "2026").iterdir())
    assert not list(home.workspaces.iterdir())
    (charge,) = charges(home)
    assert charge.state == "measured"
    assert publish(spec, home).status == "published"
    assert charges(home)[0].fence == 1


def test_changing_last_years_total_is_judged_by_what_was_published(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, rules='[{rule: row_count, change_from_last: "10%"}]')
    assert publish(spec, home).status == "published"
    more = tmp_path / "more.csv"
    more.write_text((tmp_path / "people.csv").read_text() + "A1,30,1\n" * 200)
    with pytest.raises(RuleFailed, match="change_from_last"):
        publish(spec, home, source=more, period="2027")
    (folder,) = (tmp_path / "releases" / "small" / "2026").glob("*[0-9a-f]")
    folder.rename(tmp_path / "moved")
    with pytest.raises(PublicationError, match="what was published for 2026, and that release is missing"):
        publish(spec, home, source=more, period="2027")
    assert len(charges(home)) == 1
    (tmp_path / "moved").rename(folder)
    same = tmp_path / "same.csv"
    same.write_text((tmp_path / "people.csv").read_text() + "A1,30,1\n" * 6)
    outcome = publish(spec, home, source=same, period="2027")
    assert outcome.status == "published"


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
    assert Listening.heard == [
        "the microdata break the rule row_count, which only warns",
        "the release is unsigned: no key for releases is enrolled",
    ]
