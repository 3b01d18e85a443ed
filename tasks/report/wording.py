"""Numbers and names as people read them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from tabularium.tasks.publish.guarantee import at_most

if TYPE_CHECKING:
    from jinja2 import Environment

_SIZES = ("bytes", "kB", "MB", "GB", "TB")


def whole(number: float | None) -> str:
    """Return a number with up to two decimals, without trailing zeros; 0.00 if it is nearly 0."""
    if number is None or math.isnan(number) or math.isinf(number):
        return "–"
    if abs(number) < 0.005:
        return "0.00" if number else "0"
    text = f"{number:,.{2 if abs(number) < 10 else 1}f}"
    return text.rstrip("0").removesuffix(".").replace("-", "−")


def signed(number: float) -> str:
    """Return a difference with its sign."""
    return whole(number) if number <= 0 else f"+{whole(number)}"


def short(number: float | None) -> str:
    """Return a number for an axis, with few digits."""
    if number is None:
        return "–"
    return f"{number:,.0f}" if number >= 100 or float(number).is_integer() else f"{number:.3g}"


def share(part: float | None) -> str:
    """Return a share as a percentage; 0 % and 100 % only for exactly none and all."""
    if part is None:
        return "–"
    if 0 < part < 0.001:
        return "under 0.1 %"
    if 0.999 < part < 1:
        return "over 99.9 %"
    return f"{100 * part:,.{0 if part >= 10 else 1}f}".removesuffix(".0") + " %"


def size_words(size: tuple[int, int | None] | None) -> str:
    """Return a class of published counts."""
    if size is None:
        return "left blank"
    first, last = size
    if last is None:
        return f"{first:,}+"
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def amount(exact: Fraction) -> str:
    """Return an amount of budget: exact where it is short, else rounded and marked as such."""
    text = f"{float(exact):.6g}"
    if Fraction(text) == exact:
        return text
    return str(exact) if len(str(exact)) <= 9 else f"about {float(exact):.4g}"


def file_size(size: int) -> str:
    """Return the size of a file."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_SIZES) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:,.0f} {_SIZES[unit]}" if unit == 0 or number >= 100 else f"{number:.1f} {_SIZES[unit]}"


def listed(words: list[str]) -> str:
    """Return words as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def several(number: int, one: str, more: str | None = None) -> str:
    """Return a number of things."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


# --- the templates of pages for people: they escape all that they are given, and share words and style


@lru_cache
def templates(*packages: str) -> Environment:
    """Return the templates in the folders ``page`` of packages; the first package with a name provides it.

    Kept, as they are compiled when they are first asked for.
    """
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, "page") for package in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for word in (whole, signed, short, share, size_words, amount, file_size, at_most):
        made.filters[word.__name__] = word
    made.globals.update(several=several, listed=listed)
    return made
