"""A table that is too large to be held: one draw of every slab, and a release like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabularium.ledger import Ledger, StorageFailed
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.count.count_files import SlabbedCounts
from tabularium.tasks.publish import frames, read_release
from tabularium.tasks.publish.measurement_files import read_measurement
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.flows.release.scene import publish, states
from tests.flows.release.slab_scene import PARTS, small_memory, write_slab_scene


@pytest.fixture(scope="module", autouse=True)
def _small_memory() -> Iterator[None]:
    with small_memory():
        yield


@pytest.fixture(scope="module")
def release(_small_memory: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Home]:
    """A published release and its home."""
    spec, home = write_slab_scene(tmp_path_factory.mktemp("slabs"))
    return Path(publish(spec, home).folder), home


def stored(home: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.measurements.glob("*/part-*")}


def test_it_is_published_whole_additive_and_verified(release: tuple[Path, Home]) -> None:
    folder, home = release
    assert len(stored(home)) == PARTS
    table = pd.read_csv(folder / "area_age_sex.csv", dtype={"age": str, "sex": str})
    sums = table.groupby(["age", "sex", "level"])["count"].sum().unstack("level")
    assert len(table) == 7 * 6
    assert (table["count"] >= 0).all()
    assert (sums["nation"] == sums["province"]).all()
    assert (sums["nation"] == sums["place"]).all()
    assert [each for each in verify_release(Subject(folder)) if each.outcome == "failed"] == []
    with Ledger.connect(home.ledger_url) as books:
        assert books.balance("people") == 9


def test_what_is_too_large_to_verify_here_is_not_called_forged(
    release: tuple[Path, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_release, "MOST_CELLS", 10)
    found = list(verify_release(Subject(release[0])))
    assert {each.outcome for each in found} >= {"unchecked"}
    assert [each for each in found if each.outcome == "failed"] == []


def test_a_level_in_slabs_is_one_draw_of_its_loss_over_all_cells(release: tuple[Path, Home]) -> None:
    """Half of the budget of 1 for the places: noise of scale 2 in every slab, whose losses do not add."""
    folder, home = release
    (event,) = read_measurement(folder, "area_age_sex", "place").transcript
    assert (event.shape, event.loss, event.scale) == ((4, 3, 2), Fraction(1, 2), 2)
    events = json.loads((folder / "certificate.json").read_text())["transcript"]
    assert sum(Fraction(each["loss"]) for each in events) == 1
    store = MeasurementStore(home.measurements)
    drawn = [store.read_part(folder.name, f"area_age_sex/place/{row}-{row + 1}") for row in range(4)]
    for part in drawn:
        (own,) = part.meta["measured"]["transcript"]
        assert (own["loss"], own["scale"], own["shape"]) == ("1/2", "2/1", [1, 3, 2])
    joined = np.concatenate([next(iter(part.arrays.values())) for part in drawn])
    np.testing.assert_array_equal(joined, read_measurement(folder, "area_age_sex", "place").arrays["cells"])


def test_every_format_has_all_rows_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a table that is not held has codes of its own, in parts of 15 rows of two or three places."""
    monkeypatch.setattr(frames, "ROWS", 15)
    spec, home = write_slab_scene(tmp_path)
    every = ", ".join(sorted(FORMATS))
    spec.write_text(
        spec.read_text().replace("{folder: releases}", f"{{folder: releases, formats: [{every}]}}")
    )
    folder = Path(publish(spec, home).folder)
    table = pd.read_csv(folder / "area_age_sex.csv", dtype=str)
    sdmx = pd.read_csv(folder / "area_age_sex.sdmx.csv", dtype=str)
    assert len(table) == 7 * 6
    assert list(sdmx["AREA"]) == list(table["area"])
    assert list(sdmx["OBS_VALUE"]) == list(table["count"])
    assert [finding for finding in verify_release(Subject(folder)) if finding.outcome == "failed"] == []


@pytest.mark.parametrize("kept", [3, pytest.param(PARTS, marks=pytest.mark.audit)])
def test_slabs_that_are_stored_are_never_drawn_again(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_slab_scene(tmp_path)
    real = MeasurementStore._write

    def write(self: MeasurementStore, path: Path, *arguments: Any) -> str:
        if len(stored(home)) == kept:
            raise StorageFailed("the disk is full", where="release", hint="make room")
        return real(self, path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(MeasurementStore, "_write", write)
        with pytest.raises(StorageFailed):
            publish(spec, home)
    before = stored(home)
    assert len(before) == kept
    publish(spec, home)
    after = stored(home)
    assert len(after) == PARTS
    assert {name: after[name] for name in before} == before


def test_counts_that_cannot_be_read_leave_the_charge_as_a_loss_of_power_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_slab_scene(tmp_path)
    failure = InputError("the counts are missing or altered", where="secure workspace", hint="run again")
    real = SlabbedCounts.at

    def at(self: SlabbedCounts, place: Any, first: int, last: int) -> Any:
        if first == 2:
            raise failure
        return real(self, place, first, last)

    with monkeypatch.context() as patch:
        patch.setattr(SlabbedCounts, "at", at)
        with pytest.raises(InputError, match="missing or altered"):
            publish(spec, home)
    assert states(home) == ["drawing"]
    before = stored(home)
    assert before
    publish(spec, home)
    assert states(home) == ["published"]
    assert {name: stored(home)[name] for name in before} == before
