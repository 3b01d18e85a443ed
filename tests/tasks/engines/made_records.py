"""Records that Hypothesis makes: nulls, not-a-numbers, odd texts, numbers of every size, several of a unit."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

_ODD = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=3)


def _often(*values: str | None) -> st.SearchStrategy[str | None]:
    return st.one_of(st.sampled_from(values), st.sampled_from(values), _ODD)


NUMBERS = _often(
    *(
        "1",
        " 2 ",
        "+3",
        "-0",
        "3.0",
        "3.7",
        "1e3",
        "0x10",
        "5\n",
        "5\r",
        "\u0661",
        "",
        None,
        "999999999999999999",
    ),
    *(
        ".5",
        "5.",
        "2.5",
        "1E-3",
        "1e999",
        "inf",
        "-Infinity",
        "nan",
        "9" * 160,
        "0." + "0" * 160 + "1",
        "1e+0000001",
    ),
)
RECORDS = st.tuples(
    _often("p", "P", "p ", "é", "e\u0301", "", None),
    _often("n", "s", "e", "w", "é", "e\u0301", "n\n", "", None),
    NUMBERS,
    _often(
        "2000-02-29",
        "1900-02-29",
        "2026-06-30",
        " 1999-12-31",
        "2021-01-03T1",
        "2020-06-15\n",
        "2020-06-15 10:00\nx",
        "2020-06-15T10:00\r",
        "0000-01-01",
        None,
    ),
    _often("h", "h,1", '"', None),
    st.one_of(st.none(), st.integers(-1, 101), st.sampled_from([-(2**63), 2**63 - 1])),
    st.one_of(st.none(), st.floats(), st.integers(-30, 200).map(lambda n: n / 4)),
)


def many(number: int) -> list[tuple[Any, ...]]:
    """Return so many records, for one statement over all of them: an engine judges each by itself."""
    rows = []

    @settings(max_examples=number, phases=[Phase.generate], database=None)
    @given(RECORDS)
    def collect(row: tuple[Any, ...]) -> None:
        rows.append(row)

    collect()
    return rows
