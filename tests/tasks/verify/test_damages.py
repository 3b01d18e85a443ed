"""Random damages of a release: with a ledger export all are found; without one, what is not is listed."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.verify.findings import Finding
from tasks.verify.subject import NotARelease, Subject
from tasks.verify.verify_release import verify_release
from tests.sizes import runs
from tests.tasks.verify import damages
from tests.tasks.verify.conftest import Scene

pytestmark = pytest.mark.xdist_group("verify")

UNSEEN = {
    "a_byte_fixed_up": "a byte that is no part of a number or a code: in Parquet the writer's name, in documents "
    "and metadata their words",
    "a_byte": "of the certificate, in such a field",
    "a_measurement": "a noisy number that post-processing leaves no trace of: the tables are still its own",
    "a_field": "a field that the ledger alone knows, or that is words",
}
"""Damages that may not be found without a ledger or a key, and why."""
UNSEEN_FIELDS = (
    r"created|ledger\.head\..*|ledger\.attempts|measurements\.digest|software\..*|code\..*|security\..*"
    r"|ledger\.tally_charges\.\d+\.(number|release_id|attempts)|privacy\.unit\.population"
    r"|tallies\.\d+\.number|invariants\.\d+\.numbers"
    r"|account\..*|approval\..*|audits.*|about\..*|randomness.*|side_channels.*|postprocessing\..*"
    r"|spec\.(about|columns|rules|source|publication|workspace)\..*|tuning.*|validation.*|domains.*"
)
"""Fields of the certificate in which an edit may not be seen: none is a number, a margin or what was charged."""


def first_failure(folder: Path, books: Path | None) -> Finding | str | None:
    """What is found first; a text where it is no release that can be read."""
    try:
        return next(
            (each for each in verify_release(Subject(folder, None, books)) if each.outcome == "failed"), None
        )
    except NotARelease as error:
        return str(error)


def damaged(scene: Scene, tmp_path: Path, number: int) -> tuple[Path, str, str | None]:
    """A copy with one random damage: the folder, the kind, and what was done."""
    chance = random.Random(number)
    kind = damages.DAMAGES[number % len(damages.DAMAGES)]
    folder = scene.copy(tmp_path)
    return folder, kind.__name__, kind(folder, chance)


def see_damages_found(scene: Scene, tmp_path: Path, numbers: range) -> dict[str, int]:
    found: dict[str, int] = {}
    for number in numbers:
        folder, kind, what = damaged(scene, tmp_path, number)
        if what is None:
            continue
        assert first_failure(folder, scene.books) is not None, f"{number}: {kind}: {what}"
        if first_failure(folder, None) is None:
            assert kind in UNSEEN, f"{number}: {kind}: {what} is not seen without a ledger"
            if kind == "a_byte":
                changed = _changed(damages.read(scene.release), damages.read(folder))
                assert what == "certificate.json", f"{number}: {what}"
                assert all(re.fullmatch(UNSEEN_FIELDS, each) for each in changed), f"{number}: {changed}"
            elif kind == "a_field":
                assert re.fullmatch(UNSEEN_FIELDS, what), f"{number}: {what} is not seen without a ledger"
            elif kind == "a_byte_fixed_up":
                assert _same_rows(scene.release, folder, what), f"{number}: {what}"
        found[kind] = found.get(kind, 0) + 1
    return found


def _changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The fields of two certificates that differ."""

    def plain(text: Any) -> set[tuple[str, str]]:
        found = set()
        for steps in damages.leaves(text):
            value: Any = text
            for step in steps:
                value = value[step]
            found.add((".".join(map(str, steps)), repr(value)))
        return found

    return {name for name, _ in plain(before) ^ plain(after)}


HISTOGRAM = "ages."  # how the files of its measurements begin


def _same_rows(one: Path, other: Path, name: str) -> bool:
    """Whether a file holds what it held: it has no numbers, or still has them.

    Of the histogram a noisy measurement may be another: post-processing may leave no trace of it, as is listed.
    """
    (before,), (after,) = one.rglob(name), other.rglob(name)
    if before.suffix == ".parquet" and before.parent.name == "measurements":
        same = pq.read_table(before, columns=["measured"]).equals(pq.read_table(after, columns=["measured"]))
        return same or name.startswith(HISTOGRAM)
    if before.suffix == ".parquet":
        return pq.read_table(before).equals(pq.read_table(after))
    return before.suffix in (".xml", ".jsonld", ".yaml", ".html", ".xlsx") or name.endswith(
        (".csv-metadata.json", ".cdx.json")
    )


def test_random_damages_are_found(scene: Scene, tmp_path: Path) -> None:
    """Every kind of damage twice and more; `make audit` tries the rest."""
    found = see_damages_found(scene, tmp_path, range(40))
    assert len(found) >= len(damages.DAMAGES) - 1


@pytest.mark.audit
@pytest.mark.parametrize("part", range(8))
def test_two_thousand_random_damages_are_found(scene: Scene, tmp_path: Path, part: int) -> None:
    see_damages_found(scene, tmp_path, range(40 + part * 250, 40 + (part + 1) * 250))


def test_an_older_export_does_not_vouch(scene: Scene) -> None:
    assert first_failure(scene.release, scene.older) is not None


def test_an_export_that_was_altered_does_not_vouch(scene: Scene, tmp_path: Path) -> None:
    chance = random.Random(1)
    for _ in range(runs(5, 100)):
        raw = bytearray(scene.books.read_bytes())
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        (tmp_path / "books.txt").write_bytes(raw)
        assert first_failure(scene.release, tmp_path / "books.txt") is not None


def test_a_folder_that_asks_for_more_than_there_is_is_refused(scene: Scene, tmp_path: Path) -> None:
    """A spec of more cells than its files can hold, and arrays larger than their table."""
    folder = scene.copy(tmp_path)
    certificate = damages.read(folder)
    for span in ({"from": 0, "to": 10**18}, {"from": 0, "to": 9_999_999, "width": 1}):
        certificate["spec"]["columns"]["age"]["integer"] = span
        damages.write(folder, certificate)
        assert first_failure(folder, None) is not None
    folder = scene.copy(tmp_path)
    path = folder / "measurements" / "age_sex.parquet"
    pq.write_table(pa.table({"measured": pa.array([0]).take(pa.array([0] * 1_000_000))}), path)
    damages.fix_up(folder)
    assert first_failure(folder, None) is not None


@pytest.mark.parametrize("text", ['"1e999999999"', "[[[[", "{}", "null", '{"a": 1e400}', "9" * 5000])
@pytest.mark.parametrize("steps", [("transcript",), ("spec", "privacy", "budget"), ("ledger",), ("tables",)])
def test_hostile_values_end_in_a_line(
    scene: Scene, tmp_path: Path, steps: tuple[str, ...], text: str
) -> None:
    folder = scene.copy(tmp_path)
    raw = (folder / "certificate.json").read_text()
    certificate = damages.read(folder)
    inner = certificate
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = "HERE"
    raw = damages.json.dumps(certificate).replace('"HERE"', text)
    (folder / "certificate.json").write_text(raw)
    assert first_failure(folder, None) is not None
