"""Random damages of a signed release: with a key or a ledger export all are found.

With neither, what is not found is listed with its reason.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.verify.subject import Finding, NotARelease, Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.certificate import CERTIFICATE
from tests.sizes import runs
from tests.tasks.verify import damages
from tests.tasks.verify.conftest import Scene

pytestmark = pytest.mark.xdist_group("verify")

UNSEEN = {
    "a_byte_fixed_up": "a byte that is no part of a number or a code: in Parquet the writer's name, in documents "
    "and metadata their words, in the statement the signature",
    "a_byte": "of the certificate, in such a field; of the statement, in the signature",
    "a_measurement": "a noisy number that post-processing leaves no trace of: the tables are still its own",
    "a_field": "a field that the ledger alone knows, or that is words",
    "removed": "the statement: what is unsigned says so",
    "a_statement": "another name or signature in it: whose it is says the key",
    "a_foreign_signature": "nothing else is changed: whose it is says the key",
    "an_older_export": "the folder is as it was: the export is what fails",
}
"""Damages that may not be found without a ledger and without a key, and why."""
UNSEEN_FIELDS = (
    r"created|ledger\.head\..*|ledger\.attempts|measurements\.digest|software\..*|code\..*|security\..*"
    r"|ledger\.tally_charges\.\d+\.(number|release_id|attempts)|privacy\.unit\.population"
    r"|tallies\.\d+\.number|invariants\.\d+\.numbers"
    r"|account\..*|approval\..*|audits.*|about\..*|randomness.*|side_channels.*|postprocessing\..*"
    r"|spec\.(about|columns|rules|source|publication|workspace)\..*|tuning.*|validation.*|domains.*"
)
"""Fields of the certificate in which an edit may not be seen: none is a number, a margin or what was charged."""


def first_failure(folder: Path, books: Path | None, key: Path | None = None) -> Finding | str | None:
    """What is found first; a text where it is refused as a whole."""
    try:
        return next(
            (each for each in verify_release(Subject(folder, key, books)) if each.outcome == "failed"), None
        )
    except (NotARelease, TabulariumError) as error:
        return str(error)


def try_damages(scene: Scene, tmp_path: Path, numbers: range) -> dict[str, Counter[str]]:
    """Damage copies, and verify each with a key, with an export, and with nothing.

    Returns
    -------
    Kind -> how many were ``tried``, found with a ``key``, with ``books`` and ``alone``, and ``listed``.
    """
    found: dict[str, Counter[str]] = {each.__name__: Counter() for each in damages.DAMAGES}
    missed = []
    for number in numbers:
        chance, damage = random.Random(number), damages.DAMAGES[number % len(damages.DAMAGES)]
        folder, kind = scene.copy(tmp_path), damage.__name__
        what = damage(folder, chance)
        if what is None:
            continue
        how = damages.sealed(folder, damage, chance, scene.forgers)
        done = f"{number}: {kind}, {what}, statement {how}"
        books = scene.older[what] if kind == "an_older_export" else scene.books
        seen = {
            "key": first_failure(folder, None, scene.key) is not None,
            "books": first_failure(folder, books) is not None,
            "alone": first_failure(folder, None) is not None,
        }
        listed = not seen["alone"] and _is_listed(scene.release, folder, kind, what)
        found[kind].update(
            {"tried": 1, "listed": int(listed), **{name: int(each) for name, each in seen.items()}}
        )
        missed += [f"{done}: with the export"] * (not seen["books"])
        missed += [f"{done}: with the key"] * (not seen["key"] and kind != "an_older_export")
        missed += [f"{done}: alone"] * (not seen["alone"] and not listed)
    assert not missed, "\n".join(missed)
    return found


def _is_listed(before: Path, folder: Path, kind: str, what: str) -> bool:
    """Whether a damage that is not found with neither key nor export is one of ``UNSEEN``."""
    if kind not in UNSEEN:
        return False
    if kind == "a_byte" and what == CERTIFICATE:
        changed = _changed(damages.read(before), damages.read(folder))
        return all(re.fullmatch(UNSEEN_FIELDS, each) for each in changed)
    if kind == "a_field":
        return re.fullmatch(UNSEEN_FIELDS, what) is not None
    if what == STATEMENT:
        return kind in ("a_byte", "a_byte_fixed_up", "removed", "a_foreign_signature")
    if kind == "a_byte_fixed_up":
        return _same_rows(before, folder, what)
    return kind in ("a_measurement", "an_older_export") or (
        kind == "a_statement" and what in ("another name", "another signature")
    )


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
    before, after = one / name, other / name
    if name.startswith("measurements/") and before.suffix == ".parquet":
        same = pq.read_table(before, columns=["measured"]).equals(pq.read_table(after, columns=["measured"]))
        return same or before.name.startswith(HISTOGRAM)
    if before.suffix == ".parquet":
        return pq.read_table(before).equals(pq.read_table(after))
    if before.suffix == ".px":
        return _codes_and_data(before) == _codes_and_data(after)
    if name.endswith(".jsonstat.json"):
        return _dataset(before) == _dataset(after)
    return before.suffix in (".xml", ".jsonld", ".html", ".xlsx") or name.endswith(
        (".csv-metadata.json", ".cdx.json")
    )


def _codes_and_data(path: Path) -> list[bytes]:
    """What `verify` reads of a PC-Axis file: not its titles, labels, trees and notes."""
    keywords, _, data = path.read_bytes().partition(b"\nDATA=\n")
    kept = [each for each in keywords.split(b";\n") if each.startswith((b"STUB", b"HEADING", b"CODES"))]
    return [*kept, data]


def _dataset(path: Path) -> Any:
    """What `verify` reads of a JSON-stat dataset: not its labels, notes, trees and units."""
    try:
        found = json.loads(path.read_bytes())
        codes = [found["dimension"][each]["category"]["index"] for each in found["id"]]
        return codes, found["size"], found["value"], found.get("status")
    except (ValueError, KeyError):
        return path


def test_random_damages_are_found(scene: Scene, tmp_path: Path) -> None:
    """Every kind of damage twice; `make audit` tries the rest."""
    found = try_damages(scene, tmp_path, range(2 * len(damages.DAMAGES)))
    assert sum(bool(each["tried"]) for each in found.values()) >= len(damages.DAMAGES) - 1


@pytest.mark.audit
@pytest.mark.parametrize("part", range(8))
def test_two_thousand_random_damages_are_found(scene: Scene, tmp_path: Path, part: int) -> None:
    first = 2 * len(damages.DAMAGES) + part * 250
    for kind, each in try_damages(scene, tmp_path, range(first, first + 250)).items():
        print(kind, *(f"{name} {each[name]}" for name in ("tried", "key", "books", "alone", "listed")))


@pytest.mark.audit
def test_every_field_of_the_certificate_is_judged(scene: Scene, tmp_path: Path) -> None:
    """Without a key and an export, too, but for those that are listed."""
    folder, chance = scene.copy(tmp_path), random.Random(1)
    (folder / STATEMENT).unlink()
    certificate = damages.read(folder)
    unseen = []
    for steps in damages.leaves(certificate):
        name = ".".join(map(str, steps))
        if steps[0] == "files" or re.fullmatch(UNSEEN_FIELDS, name):
            continue
        damages.write(folder, damages.with_another_value(certificate, steps, chance))
        unseen += [name] * (first_failure(folder, None) is None)
    assert not unseen


def test_an_older_export_does_not_vouch(scene: Scene) -> None:
    for books in scene.older.values():
        assert first_failure(scene.release, books) is not None


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


def test_no_check_lays_out_a_table_of_more_cells_than_are_read(scene: Scene, tmp_path: Path) -> None:
    folder = scene.copy(tmp_path)
    certificate = damages.read(folder)
    spec, names = certificate["spec"], [f"wide{number}" for number in range(12)]
    wide = {**spec["columns"]["age"], "integer": {"from": 0, "to": 999, "floor": False}}
    spec["columns"] |= dict.fromkeys(names, wide)
    table = next(each for each in spec["tables"] if "age" in each["dimensions"])
    table["dimensions"] += names
    damages.write(folder, certificate)
    told = [each.said for each in verify_release(Subject(folder))]
    assert not [each for each in told if "MemoryError" in each]
    assert any(f"certificate.json: spec.tables up to {table['name']} have more" in each for each in told)


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
