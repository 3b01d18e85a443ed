"""A run that is cut off after some parts are stored: the next one draws the missing ones, of the same counts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabularium.tasks.measure
from tabularium.ledger import Ledger, NotApproved, StorageFailed
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, write_scene

PARTS = 4  # three levels of one table, and another table


def bounded_scene(folder: Path) -> tuple[Path, Home]:
    """Write a release whose units have several records each, of which two count."""
    spec, home = write_scene(folder)
    lines = (folder / "people.csv").read_text().splitlines()
    rows = [f"{line},u{place % 97}" for place, line in enumerate(lines[1:])]
    (folder / "people.csv").write_text("\n".join([f"{lines[0]},who", *rows, ""]))
    text = spec.read_text().replace("{unit: record,", "{unit: {column: who}, max_contributions: 2,")
    spec.write_text(text.replace("dataset: people", "dataset: units"))
    terms: dict[str, Any] = {"relation": "add-remove", "definition": "pure", "cap": Fraction(10)}
    with Ledger.connect(home.ledger_url) as books:
        books.open_account("units", unit="who", **terms)
    return spec, home


def stored(home: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.measurements.glob("*/part-*")}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The true counts of every attempt, in the order of the parts."""
    seen: list[list[Any]] = []
    jobs = tabularium.tasks.measure._jobs

    def watched(*arguments: Any) -> list[Any]:
        found = list(jobs(*arguments))
        seen.append([np.array(job.counts) for job in found])
        return found

    monkeypatch.setattr(tabularium.tasks.measure, "_jobs", watched)
    return seen


@pytest.mark.parametrize("kept", [1, 3, PARTS])
def test_parts_that_are_stored_are_adopted_and_the_counts_are_the_same(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[list[Any]]
) -> None:
    spec, home = bounded_scene(tmp_path)
    with monkeypatch.context() as patch:
        real = MeasurementStore._write

        def write(self: MeasurementStore, path: Path, *arguments: Any) -> str:
            if len(stored(home)) == kept:
                raise StorageFailed("the disk is full", where="release", hint="make room")
            return real(self, path, *arguments)

        patch.setattr(MeasurementStore, "_write", write)
        with pytest.raises(StorageFailed):
            publish(spec, home)
    before = stored(home)
    assert len(before) == kept
    publish(spec, home)
    after = stored(home)
    assert len(after) == PARTS
    assert {name: after[name] for name in before} == before
    first, second = counted
    assert [array.sum() for array in first] == [2 * 97] * PARTS, "bounding has something to choose"
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    with Ledger.connect(home.ledger_url) as books:
        (charge,) = books.charges("units")
    assert (charge.state, charge.attempts) == ("published", 2)


def test_a_fourth_attempt_is_refused_before_anything_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[list[Any]]
) -> None:
    spec, home = write_scene(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(MeasurementStore, "write_part", lambda *_: (_ for _ in ()).throw(StorageFailed("full")))
        for _ in range(3):
            with pytest.raises(StorageFailed):
                publish(spec, home)
    with pytest.raises(NotApproved, match="cut off 3 times, and an officer must allow more"):
        publish(spec, home)
    assert len(counted) == 3
    with Ledger.connect(home.ledger_url) as books:
        (charge,) = books.charges("people")
        books.allow_attempts(charge.release_id, reason="the disk has room again")
    publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert books.charges("people")[0].attempts == 4
        books.verify()
