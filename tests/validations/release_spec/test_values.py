"""Exact fractions and the other kinds of value."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tabularium.validations.release_spec.scalars import (
    NEEDS_QUOTES,
    TERM_LIMIT,
    Budget,
    Change,
    Confidence,
    Count,
    Portion,
    Positive,
    RejectLimit,
    Share,
    Switch,
    Text,
    WholeNumber,
    fraction,
)


def read(kind: object, value: object) -> object:
    return TypeAdapter(kind).validate_python(value)


def refused(kind: object, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        read(kind, value)
    (error,) = caught.value.errors()
    context = error["ctx"]
    assert context["hint"] or error["type"] == NEEDS_QUOTES
    return str(context["what"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("0.1", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("2.5/10", Fraction(1, 4)),
        ("10%", Fraction(1, 10)),
        ("12.5 %", Fraction(1, 8)),
        ("1/3%", Fraction(1, 300)),
        (" 0.25 ", Fraction(1, 4)),
        ("000.50", Fraction(1, 2)),
        (3, Fraction(3)),
        ("999999999999/1000000000000", Fraction(999999999999, 10**12)),
    ],
)
def test_exact_fractions(text: object, value: Fraction) -> None:
    assert fraction(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "½", "١", "−1", "1/3 of it", "1" * 13, "9" * 41, "1/" + "9" * 60, 10**13, 10**40],
        *[
            "one",
            "1/0",
            "0/0",
            "1e-3",
            "1E3",
            "-1",
            "+1",
            "1/-3",
            "1//3",
            "1/3/3",
            ".5",
            "1.",
            "0x1",
            "1_0",
            "1,5",
            "nan",
            "inf",
        ],
        *["0.3333333333333", "1/1000000000001", True, False, None, [1], {"a": 1}],
    ],
)
def test_what_is_no_fraction(text: object) -> None:
    refused(Portion, text)
    refused(Budget, text)


@pytest.mark.parametrize("kind", [Budget, Share, Portion, Change, Confidence, RejectLimit])
@pytest.mark.parametrize("value", [0.1, 0.5, 1.0, float("nan"), float("inf"), 1e300])
def test_floats_are_refused_everywhere(kind: object, value: float) -> None:
    assert "YAML float" in refused(kind, value)


@given(st.fractions(min_value=Fraction(1, TERM_LIMIT), max_denominator=TERM_LIMIT, max_value=TERM_LIMIT))
def test_every_short_fraction_is_read_back_from_its_text(value: Fraction) -> None:
    if value.numerator > TERM_LIMIT:
        assert "digits" in refused(Budget, str(value))
        return
    assert read(Budget, str(value)) == value
    assert read(Budget, TypeAdapter(Budget).dump_python(value, mode="json")) == value


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_decimals_are_exact(digits: int, places: int) -> None:
    whole, part = divmod(digits, 10**places)
    text = f"{whole}.{part:0{places}d}" if places else str(whole)
    assert fraction(text) == Fraction(digits, 10**places)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Budget, ["1", "1/1000", "20", 2], ["0", 0, "0.0", "10%"]),
        (Share, ["1", "1/3", "100%", 1], ["0", "0%", "1.01", "101%", 2]),
        (Portion, ["0", 0, "0%", "100%", "1/2"], ["1.5", "101%", 2]),
        (Change, ["20%", "200%", "1/100", 1], ["0", "0%", 0, 20, "1.5"]),
        (Confidence, ["0.9", "90%", "19/20"], ["0", "1", 1, "100%"]),
    ],
)
def test_bounds(kind: object, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert isinstance(read(kind, value), Fraction)
    for value in bad:
        refused(kind, value)


def test_a_change_above_one_is_written_so_that_it_can_be_read_again() -> None:
    """A certificate holds the spec, which is read again by whoever checks it."""
    for text in ("2000%", "20%", "400/3%"):
        written = TypeAdapter(Change).dump_python(read(Change, text), mode="json")
        assert read(Change, written) == read(Change, text)


def test_a_reject_limit_is_a_count_or_a_percentage() -> None:
    assert read(RejectLimit, 0) == 0
    assert type(read(RejectLimit, 7)) is int
    assert read(RejectLimit, "1%") == Fraction(1, 100)
    assert isinstance(read(RejectLimit, "100%"), Fraction)
    for value in ["1", "0.01", "1/100", -1, True, "101%", "-1%", None]:
        refused(RejectLimit, value)
    written = [
        TypeAdapter(RejectLimit).dump_python(v, mode="json") for v in (7, Fraction(1, 100), Fraction(1))
    ]
    assert written == [7, "1%", "100%"]


def test_whole_numbers() -> None:
    assert read(WholeNumber, -5) == -5
    assert read(Count, 0) == 0
    assert read(Positive, 1) == 1
    for kind, value in [
        (WholeNumber, 1.0),
        (WholeNumber, True),
        (WholeNumber, None),
        (WholeNumber, 10**19),
        (Count, -1),
        (Positive, 0),
    ]:
        refused(kind, value)
    assert refused(WholeNumber, "5") == "is text"


def test_text_and_switches() -> None:
    assert read(Text, "a b") == "a b"
    assert read(Text, 2026) == "2026"
    for value in ["", " a", "a ", "a\nb", "a\x1b[0m", 1.5, True, None, ["a"], "x" * 1001]:
        refused(Text, value)
    assert read(Switch, True) is True
    for value in ["true", "yes", 1, 0, None]:
        refused(Switch, value)
