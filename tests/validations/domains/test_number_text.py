"""Numbers in text: read as they are, however many digits they have, and never an error."""

from __future__ import annotations

from decimal import Decimal

import ibis
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tabularium.validations.domains.encoding import FAR, as_number

ENGINE = ibis.duckdb.connect()


def read(values: list[object], kind: str = "string") -> list[float | None]:
    table = ibis.memtable(
        {"row": list(range(len(values))), "raw": values}, schema={"row": "int64", "raw": kind}
    )
    found = ENGINE.to_pyarrow(table.select("row", number=as_number(table.raw)).order_by("row"))
    numbers: list[float | None] = found["number"].to_pylist()
    return numbers


BY_HAND: list[tuple[str | None, float | None]] = [
        *(("0.0012345678901234567", 0.0012345678901234567), ("9999999999999999999", 1e19)),
        *((" +.5e1 ", 5.0), ("7.", 7.0), ("-1e02", -100.0), ("1e0000002", 100.0)),
        *(("1e400", FAR), ("-1e400", -FAR), ("1e-400", 0.0), ("0e999", 0.0), ("-0.0e+999", 0.0)),
        *(("9" * 400, FAR), ("-" + "9" * 400 + ".5", -FAR), ("0" * 400 + "12", 12.0)),
        *(("0." + "0" * 400 + "1", 0.0), ("1." + "0" * 400 + "1", 1.0), ("inf", FAR), (" -Infinity", -FAR)),
        *((text, None) for text in ("", "nan", "1,5", "x", "1e", "e5", ".", "--1", "0x10", "1 2", "1e5.0", None)),
    ]  # fmt: skip


def test_by_hand() -> None:
    assert read([text for text, _ in BY_HAND]) == [number for _, number in BY_HAND]


numbers = st.from_regex(
    r"[+-]?(0{0,3}[0-9]{0,40}\.[0-9]{1,40}|[0-9]{1,200})(e[+-]?[0-9]{1,4})?", fullmatch=True
)


@settings(max_examples=10)
@given(st.lists(numbers, min_size=30, max_size=60))
@example(["123456789012345678901234567890e-29", "1e99", "9" * 150 + "e99", "0.00001e-99"])
def test_numbers_are_what_they_say_within_all_bounds(texts: list[str]) -> None:
    for text, found in zip(texts, read(list(texts)), strict=True):
        exact, most = Decimal(text), Decimal(2**53)
        assert found is not None
        got = min(max(Decimal(found), -most), most)
        assert abs(got - min(max(exact, -most), most)) <= abs(got) / 2**51 + Decimal("1e-40"), text


@settings(max_examples=10)
@given(st.lists(st.text("0123456789+-.eE inf\n", max_size=12), min_size=300, max_size=400))
def test_nothing_raises(texts: list[str]) -> None:
    assert len(read(list(texts))) == len(texts)


def test_truth_values_are_one_and_zero() -> None:
    assert read([True, False, None], "boolean") == [1.0, 0.0, None]
