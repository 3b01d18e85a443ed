"""From raw columns to cell codes, as Ibis expressions.

Every declared column becomes a whole number 0..size-1, or null where the record is to be rejected. The
expressions hold no dialect of one engine: arithmetic for bins, CASE for short lists, a join with the code
list for long ones. Text is read by pattern, not by an engine's own idea of a number, so that ``3.0`` is
three and ``3.7``, ``1e3`` or ``0x10`` are invalid everywhere.

Decimals are compared exactly. Text and decimal columns are compared as they are written, digit by digit;
doubles as the shortest decimal that is read as the same double, so that the 0.3 of a data frame is in the
class that begins at 0.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    import ibis
    import ibis.expr.datatypes as dt
else:
    ibis = Later("ibis")
    dt = Later("ibis.expr.datatypes")

# Beyond this many codes a hash join with the code list beats a CASE that compares them one by one.
_LONGEST_CASE = 4
WHOLE = r"^ *([+-]?[0-9]{1,18})(\.0*)? *$"
"""Sign, up to 18 digits (fits 64 bits), and a fraction only if it is zero."""
DECIMAL = r"^ *([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,2}))? *$"
"""Sign, digits before and after the point, and an exponent of at most two digits."""
_SIGNIFICANT = "^0*([0-9]{1,16})$"
_ZEROS = "0" * 120  # on either side of digits, so that no exponent moves the point beyond them
# Largest magnitude below which every whole number is a double.
_EXACT = 2**53


@dataclass(frozen=True)
class CodedNames:
    """Names of what :func:`coded` adds for one column.

    Attributes
    ----------
    code
        Cell code, null where the record is rejected.
    null, invalid
        Whether the raw value is null, or is a value outside the domain.
    value
        The step that was read, for a column of numbers
        (:class:`tabularium.validations.domains.domains.NumberDomain`): of whole numbers the number itself;
        null where there is none.
    """

    code: str
    null: str
    invalid: str
    value: str | None


def coded_names(domains: Mapping[str, Domain]) -> dict[str, CodedNames]:
    """Return the names that :func:`coded` gives; positions, since column names may hold anything."""
    return {
        name: CodedNames(
            f"code{index}",
            f"null{index}",
            f"invalid{index}",
            f"value{index}" if isinstance(domain, NumberDomain) else None,
        )
        for index, (name, domain) in enumerate(domains.items())
    }


def coded(
    table: Any,
    raw: Mapping[str, str],
    domains: Mapping[str, Domain],
    wanted: Collection[str] | None = None,
) -> Any:
    """Return ``table`` with the codes of declared columns added: of those that are wanted, or of all.

    Their columns are those of :func:`coded_names`.

    Parameters
    ----------
    raw
        Declared column -> its name in ``table``.
    domains
        Declared column -> its public domain.
    """
    names = coded_names(domains)
    chosen = {name: domain for name, domain in domains.items() if wanted is None or name in wanted}
    lookups = {name: domain for name, domain in chosen.items() if _needs_lookup(domain)}
    for name, domain in lookups.items():
        table = _with_lookup(table, raw[name], domain, names[name].code)
    # Apart from what is made of them below: then an engine reads each text by pattern once.
    values = {
        names[name].value or "": as_steps(table[raw[name]], domain)
        for name, domain in chosen.items()
        if isinstance(domain, NumberDomain)
    }
    table = table.mutate(**values) if values else table
    added: dict[str, Any] = {}
    for name, domain in chosen.items():
        known = table[names[name].code] if name in lookups else None
        value = None if names[name].value is None else table[names[name].value]
        added |= _columns(table[raw[name]], value, known, domain, names[name])
    return table.mutate(**added)


def kept(table: Any, domains: Mapping[str, Domain], unit: str | None) -> Any:
    """Return the condition that a coded record is counted: every code is known, and so is its unit."""
    conditions = [table[names.code].notnull() for names in coded_names(domains).values()]
    if unit is not None:
        conditions.append(~is_missing(table[unit]))
    return ibis.and_(*conditions)


def cell_number(table: Any, dimensions: Sequence[str], domains: Mapping[str, Domain]) -> Any:
    """Return the row-major position of each coded record in a table over ``dimensions``.

    In 32 bits where the positions fit: half the bytes to carry out of the engine.
    """
    names = coded_names(domains)
    fits = math.prod(domains[name].size for name in dimensions) < 2**31
    position = None
    for name in dimensions:
        code = table[names[name].code].cast("int32" if fits else "int64")
        position = code if position is None else position * domains[name].size + code
    return position if position is None or not fits else position.cast("int32")


def is_missing(column: Any) -> Any:
    """Return whether a raw value is null; not-a-number counts as null, as data frames write it."""
    return column.isnull() | column.isnan() if column.type().is_floating() else column.isnull()


def as_text(column: Any) -> Any:
    """Return a raw column as the text that codes are compared with; null where it cannot be a code."""
    kind = column.type()
    if kind.is_string():
        return column
    if kind.is_floating() or kind.is_decimal():
        return as_integer(column).cast("string")
    return column.cast("string")


def as_integer(column: Any) -> Any:
    """Return a raw column as 64-bit whole numbers; null where it is not one."""
    kind = column.type()
    if kind.is_string():
        return column.re_extract(WHOLE, 1).nullif("").cast("int64")
    if kind.is_integer():
        fits = column if not isinstance(kind, dt.UInt64) else _where(column <= 2**63 - 1, column)
        return fits.cast("int64")
    if kind.is_floating():
        return _where((column.abs() <= _EXACT) & (column == column.floor()), column).cast("int64")
    if kind.is_decimal():
        return _where((column.abs() < 10**18) & (column == column.floor()), column).cast("int64")
    return column.cast("string").re_extract(WHOLE, 1).nullif("").cast("int64")


def as_steps(column: Any, domain: NumberDomain) -> Any:
    """Return a raw column as the steps of a domain, in 64 bits; null where it is no number, or a huge one."""
    if domain.digits is None and not domain.floor:
        return as_integer(column)
    kind, digits = column.type(), domain.digits or 0
    if kind.is_floating():
        steps = _steps_of_doubles(column, digits)
    elif kind.is_integer():
        steps = 2 * 10**digits * _where(column.abs() < 10**18 // 10**digits // 4, column).cast("int64")
    else:
        steps = _steps_of_text(column if kind.is_string() else column.cast("string"), digits)
    return (steps - steps.abs() % 2) // 2 if domain.floor else steps


def _steps_of_text(text: Any, digits: int) -> Any:
    """Return numbers that are written out, of any length and with an exponent, as steps of 10^-digits.

    The digits are cut in two at a place behind the point: before it they are a whole number, and of those
    after it matters only if they are zero.
    """
    sign, before, after, exponent = (
        ibis.coalesce(text.re_extract(DECIMAL, group), "") for group in (1, 2, 3, 4)
    )
    written = before.concat(after)
    moved = ibis.coalesce(exponent.nullif("").cast("int64"), 0)
    split = (before.length().cast("int64") + moved + digits + len(_ZEROS)).cast("int32")
    padded = ibis.literal(_ZEROS).concat(written, _ZEROS)
    integer = padded.substr(0, split).re_extract(_SIGNIFICANT, 1).nullif("").cast("int64")
    steps = 2 * integer + ibis.ifelse(padded.substr(split).re_search("[1-9]"), 1, 0)
    return _where(written != "", ibis.ifelse(sign == "-", -steps, steps))


def _steps_of_doubles(column: Any, digits: int) -> Any:
    """Return doubles, or floats of 32 bits, as steps of 10^-digits.

    A quotient of whole numbers is rounded once, to the double that its decimal is read as. So comparing with
    it is comparing the shortest decimals, of up to 15 digits.
    """
    scale, single = float(10**digits), column.type().is_float32()

    def number(step: Any) -> Any:
        exact = step.cast("float64") / scale
        return exact.cast("float32") if single else exact

    near = _where(column.cast("float64").abs() <= _EXACT / 4 / scale, column)
    scaled = (near.cast("float64") * scale).cast("int64")  # rounded one way or the other: at most 1 away
    scaled = scaled + ibis.ifelse(number(scaled + 1) <= near, 1, 0) - ibis.ifelse(number(scaled) > near, 1, 0)
    return 2 * scaled + ibis.ifelse(number(scaled) == near, 0, 1)


def _needs_lookup(domain: Domain) -> bool:
    return not isinstance(domain, NumberDomain) and domain.size > _LONGEST_CASE


def _with_lookup(table: Any, column: str, domain: Domain, code: str) -> Any:
    """Join the code list: one more column ``code``, null where the text is in no row of it."""
    key = f"{code}_text"
    codes = ibis.memtable(
        pa.table({key: pa.array(domain.codes, pa.string()), code: pa.array(range(domain.size), pa.int32())})
    )
    # Codes are unique, hence the join neither drops nor doubles a record.
    return table.left_join(codes, as_text(table[column]) == codes[key]).drop(key)


def _columns(raw: Any, value: Any, known: Any, domain: Domain, names: CodedNames) -> dict[str, Any]:
    null = is_missing(raw)
    added: dict[str, Any] = {names.null: null}
    if isinstance(domain, NumberDomain):
        known = _bin(value, domain)
        other = domain.bins
    else:
        if known is None:
            pairs = [(text, index) for index, text in enumerate(domain.codes)]
            known = as_text(raw).cases(*pairs).cast("int32")
        other = domain.codes.index(domain.other) if domain.other is not None else -1
    added[names.invalid] = known.isnull() & ~null
    if domain.nulls == domain.invalid == "other":
        known = known.fill_null(other)
    elif domain.nulls == "other":
        known = ibis.ifelse(null, other, known)
    elif domain.invalid == "other":
        known = ibis.ifelse(known.isnull() & ~null, other, known)
    added[names.code] = known
    return added


def _bin(value: Any, domain: NumberDomain) -> Any:
    """Return the bin of each value, null outside the domain."""
    edges = domain.edges
    inside = (value >= edges[0]) & (value < edges[-1])
    if _regular(edges):
        shifted, width = value - edges[0], edges[1] - edges[0]
        bin_number = shifted if width == 1 else shifted // width
    else:
        bin_number = _search(value, edges, 0, domain.bins)
    return _where(inside, bin_number).cast("int32")


def _regular(edges: Sequence[int]) -> bool:
    """Return whether all bins but a narrower last one are equally wide: then a division finds the bin."""
    width = edges[1] - edges[0]
    *widths, last = (high - low for low, high in pairwise(edges))
    return set(widths) <= {width} and last <= width and edges[-1] - edges[0] < _EXACT


def _search(value: Any, edges: Sequence[int], low: int, high: int) -> Any:
    """Return the binary search for the bin as nested CASE: log2(bins) comparisons per record."""
    if high - low == 1:
        return ibis.literal(low, type="int32")
    middle = (low + high) // 2
    return ibis.ifelse(
        value < edges[middle], _search(value, edges, low, middle), _search(value, edges, middle, high)
    )


def _where(condition: Any, value: Any) -> Any:
    return ibis.ifelse(condition, value, ibis.null(value.type()))


# A number has as many digits as it likes. What a double could not hold is recognised by its digits only:
# numbers of more than 150 digits before the point, or whose exponent has three digits or more, are as good as
# infinite, or zero; so whatever is cast is within the reach of a double.

FAR = 1e300
"""Stands for what is beyond all bounds."""
_SMALL = r"(?:[eE][+-]?0*[0-9]{1,2})? *$"  # an exponent of at most two digits, or none
_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
NUMBER = rf"^ *([+-]?{_DIGITS}(?:[eE][+-]?0*[0-9]{{1,2}})?) *$"
# Nearly every number: the rest is looked at only where this is not one, since patterns take time.
USUAL = r"^ *([+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})(?:[eE][+-]?[0-9]{1,2})?) *$"
_INFINITE = r"^ *[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])? *$"
_LONG = rf"^ *[+-]?0*[1-9][0-9]{{150,}}(?:\.[0-9]*)?{_SMALL}"
_LARGE = rf"^ *[+-]?{_DIGITS}[eE]\+?0*[1-9][0-9]{{2,}} *$"
_TINY = rf"^ *[+-]?0*\.0{{150,}}[0-9]*{_SMALL}"
_NEGLIGIBLE = rf"^ *[+-]?{_DIGITS}[eE]-0*[1-9][0-9]{{2,}} *$"
_ZERO = r"^ *[+-]?[0.]+(?:[eE]|$)"
_MINUS = "^ *-"
_NO_NUMBER = "\x1a"  # a control character: it reads as no number, whole or not


@dataclass(frozen=True)
class Separators:
    """How numbers are written in text: what stands between thousands, if anything, and before decimals."""

    thousands: str | None = None
    decimal: str = "."

    @property
    def are_usual(self) -> bool:
        """Whether numbers are read without any change: as 1234.5."""
        return self == Separators()

    def plain(self, text: Any) -> Any:
        """Return text with numbers written as 1234.5; null stays null, and the rest reads as no number.

        Thousands stand in groups of three before the decimals, everywhere or not at all, and the first group
        does not begin with a zero.
        """
        point = re.escape(self.decimal)
        digits = rf"[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+"
        number = rf"(?:{digits})(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
        shown = text
        if self.thousands is not None:
            group = rf"{re.escape(self.thousands)}[0-9]{{3}}"
            number = rf"[1-9][0-9]{{0,2}}(?:{group})+(?:{point}[0-9]*)?|{number}"
            shown = shown.replace(self.thousands, "")
        if self.decimal != ".":
            shown = shown.replace(self.decimal, ".")
        read = ibis.ifelse(text.re_search(rf"^ *[+-]?(?:{number}) *$"), shown, _NO_NUMBER)
        return ibis.ifelse(text.isnull(), ibis.null("string"), read)


def as_number(column: Any) -> Any:
    """Return a raw column as doubles; null where it cannot be read as a number, `FAR` where it is too large.

    A truth value is 1 or 0.
    """
    kind = column.type()
    if kind.is_boolean():
        return column.cast("int8").cast("float64")
    if kind.is_numeric():
        return ibis.ifelse(is_missing(column), ibis.null("float64"), column.cast("float64"))
    text = column if kind.is_string() else column.cast("string")
    return ibis.coalesce(text.re_extract(USUAL, 1).nullif("").cast("float64"), _unusual(text))


def number_column(raw: str) -> str:
    """Return the name of the column that already holds a raw column as numbers, if there is one."""
    return f"{raw}_number"


def plain_column(raw: str) -> str:
    """Return the name of the column with the text of a raw one as :meth:`Separators.plain` has it."""
    return f"{raw}_plain"


def plain_name(table: Any, raw: str) -> str:
    """Return the name of the column for the numbers of a raw column."""
    name = plain_column(raw)
    return name if name in table.columns else raw


def number_of(table: Any, raw: str) -> Any:
    """Return a raw column of a table as :func:`as_number` reads it, or as it was read before."""
    name = number_column(raw)
    return table[name] if name in table.columns else as_number(table[plain_name(table, raw)])


def of_group(group: Any | None, bounds: Sequence[int], kind: str) -> Any:
    """Return the bound of each record: of its group, a code from 0 on, or the one of all."""
    if group is None:
        return ibis.literal(bounds[0], type=kind)
    *named, last = (ibis.literal(bound, type=kind) for bound in bounds)
    return ibis.cases(*((group == code, bound) for code, bound in enumerate(named)), else_=last)


def _unusual(text: Any) -> Any:
    """Return numbers that are longer than usual, or infinite."""
    # Before the cast, and not around it: an engine may compute both sides of a choice.
    beyond = text.re_search(_LONG) | text.re_search(_TINY)
    plain = ibis.ifelse(beyond, ibis.null("string"), text.re_extract(NUMBER, 1).nullif(""))
    far = text.re_search(_LONG) | (text.re_search(_LARGE) & ~text.re_search(_ZERO))
    return ibis.cases(
        (far | text.re_search(_INFINITE), ibis.ifelse(text.re_search(_MINUS), -FAR, FAR)),
        (text.re_search(_TINY) | text.re_search(_LARGE) | text.re_search(_NEGLIGIBLE), 0.0),
        else_=plain.cast("float64"),
    )
