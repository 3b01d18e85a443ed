"""Tables of more cells than are held at once: what they must be, each with one line that says so."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tabularium.validations.release_spec.checks import table_checks as large_tables
from tabularium.validations.release_spec.checks.table_checks import slabs
from tests.validations.release_spec.spec_samples import SPEC, block, changed, problems_of

ALONE = SPEC.split("  - name: sex_status")[0].replace('    share: "2/3"\n', "")  # 48 cells, a family of 24
LEVELS = '    levels: {nation: "1/6", region: "1/3", place: "1/2"}\n'


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "HELD", 30)


def test_a_table_that_can_be_cut_is_none_too_large(tmp_path: Path) -> None:
    assert problems_of(tmp_path, ALONE) == ()
    zcdp = changed("relation: add-remove,", 'definition: zcdp, delta: "1/1000",', ALONE)
    assert problems_of(tmp_path, zcdp) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SPEC, "only table of its spec"),
        (ALONE.replace(LEVELS, "").replace("hierarchy: areas.csv, levels: [nation, region, place]",
                                           "categories: [a, b, c, d]"), "no hierarchy"),
        (ALONE + "    mechanism: boost\n", "identity or gaussian"),
        (ALONE + "    mechanism: denoise\n    per: age\n", "without per"),
        (ALONE + "    where: age < 65\n", "no where"),
        (ALONE + "    measures: {years: {sum: age, from: 0, to: 99}}\n", "no measures"),
        (block("postprocessing", "postprocessing: {rounding: false}", ALONE), "post-processing"),
        (block("impossible", "impossible: [{cells: {age: ['0-4'], sex: ['1']}, reason: none}]", ALONE), "impossible"),
        (changed("{path: nowhere/persons.csv,", "{path: nowhere/persons.csv, engine: spark, master: local,", ALONE), "DuckDB"),
    ],
)  # fmt: skip
def test_others_are_told_why_not(text: str, why: str, tmp_path: Path) -> None:
    found = [each for each in problems_of(tmp_path, text) if each.field == "tables[0].dimensions"]
    assert len(found) == 1, problems_of(tmp_path, text)
    assert why in found[0].what and "coarser" in found[0].hint


def test_a_family_must_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "HELD", 15)
    (problem,) = problems_of(tmp_path, ALONE)
    assert "have more than 15 cells" in problem.what


def test_roots_are_a_family(tmp_path: Path) -> None:
    """Non-negativity keeps the total of all roots: a list without levels above is no way round the limit."""
    flat = "code,label,parent\n" + "".join(f"{place},{place},\n" for place in range(9))
    text = changed("levels: [nation, region, place]", "levels: [place]", ALONE).replace(LEVELS, "")
    (problem,) = problems_of(tmp_path, text, {"areas.csv": flat})
    assert "roots, have more than 30 cells" in problem.what


@pytest.mark.parametrize("shape", [(1, 5), (7, 2, 3), (12, 6), (3, 100)])
def test_slabs_cover_every_node_once(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "SLAB", 12)
    found = list(slabs(shape))
    assert [node for first, last in found for node in range(first, last)] == list(range(shape[0]))
    inner = math.prod(shape[1:])
    assert all(last - first == 1 or (last - first) * inner <= 12 for first, last in found)
