"""Which tables a query asks, and measures beside the counts: their arrays as tables with one more attribute.

The array of a measure is a table like any other. Its last attribute is the measure: its values are the
numbers that were added up in a cell, so that everything that is computed from counts by the numbers of an
attribute is computed from it as well, with the same intervals:

- a *sum* has one number, which counts in the unit of its grid;
- a *mean* has two, A and B: as if A/T records had the largest value and B/T the smallest, T being the
  distance of the bounds in steps. Their number is (A + B)/T, and sum and average are those of the records;
- a *quantile* by a tree has one for each value of its grid, and is a histogram over it, with the noise of the
  lowest level of the tree; one by a choice is answered as it is published, of single cells;
- a *rate* has two, records that count as what it is per and records that count as nothing: their average.

A name in brackets is looked for among the measures of the tables, then among their attributes, then among the
columns that measures are made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from tabularium.mechanisms.arrays import Bools
from tabularium.mechanisms.queries.answer_sources import Askable
from tabularium.mechanisms.queries.attributes import Attribute, close, listed
from tabularium.mechanisms.queries.grammar import Measure, Op, Query, Word, plain, query_error
from tabularium.mechanisms.queries.query_plan import known_names


@dataclass(frozen=True, eq=False)
class MeasuredAttribute(Attribute):
    """A measure of a table, as the last attribute of its array.

    Attributes
    ----------
    column
        Of the source that it is made of.
    answers
        What can be computed from it.
    unit
        By which sums are multiplied; an average needs none.
    signed
        Whether its numbers may truly be less than zero.
    about
        How its values are bounded, as a sentence.
    shown
        What is published of it in the table, and the share of a quantile.
    alike
        What is equal for measures that add up the same.
    """

    column: str = ""
    answers: tuple[Measure, ...] = ("sum",)
    unit: float = 1.0
    signed: bool = False
    about: str = ""
    shown: tuple[Measure, float] = ("sum", 0.5)
    alike: object = None

    def mask(self, values: Iterable[Word], level: str | None = None) -> Bools:
        """Refuse: records are not told apart by a measure."""
        self._refuse(next(iter(values)).at)

    def span(self, op: Op, bound: Word, level: str | None = None) -> Bools:
        """Refuse: records are not told apart by a measure."""
        self._refuse(bound.at)

    def _refuse(self, at: int) -> NoReturn:
        raise query_error(
            at,
            f"{plain(self.name)} is a measure, by whose values no records were told apart",
            f"ask for {self.offers}, with tests of columns that the table crosses",
        )

    def is_shown(self, query: Query) -> bool:
        """Return whether what is asked is what is published of it."""
        return query.measure == self.shown[0] and query.share == self.shown[1]

    @property
    def offers(self) -> str:
        """What can be asked of it, in words."""
        half = self.shown[1] == 0.5
        share = f"median({self.name})" if half else f"quantile({self.name}, {self.shown[1]:g})"
        return ", ".join(share if each == "quantile" else f"{each}({self.name})" for each in self.answers)


def asked_of(query: Query, tables: Sequence[Askable]) -> list[tuple[Askable, Query]]:
    """Return the tables or arrays that know what is asked of them, each with the query as it is put to it.

    Of those that count other records none is asked, unless the query names it.

    Raises
    ------
    InputError
        Naming a table that there is not, a name that could mean several measures, or what of a measure cannot
        be computed.
    """
    if query.table is not None:
        tables = _named(query.table, tables)
    found = [(table, put) for table in tables if (put := table.asked(query)) is not None]
    counts = [each for each in found if measure_in(each[0]) is None]
    if query.of is None:
        return counts
    arrays = [(each, put, known) for each, put in found if (known := measure_in(each)) is not None]
    name = query.of.text.casefold()
    own = [each for each in arrays if each[2].name.casefold() == name]
    crossed = any(_has(table, name) for table, _ in counts)
    of_column = [] if crossed else [each for each in arrays if each[2].column.casefold() == name]
    if not own and not of_column:
        if query.measure == "rate" or (arrays and not any(_has(table, name) for table in tables)):
            _refuse_unknown(query.of, tables)
        return counts
    able = [each for each in own if query.measure in each[2].answers]
    able = able or [each for each in of_column if query.measure in each[2].answers]
    if not able:
        kind = "median" if query.measure == "quantile" else query.measure
        offers = dict.fromkeys(known.offers for _, _, known in own or of_column)
        what = f"no {kind} of {plain(query.of.text)} was measured"
        raise query_error(query.of.at, what, f"ask for {' or '.join(offers)}")
    if len({known.alike for _, _, known in able}) > 1:
        raise query_error(
            query.of.at,
            f"{plain(query.of.text)} could be several measures, with other bounds, steps or weights",
            f"name one, or its table with `from`: {listed([f'{k.name} from {t.name}' for t, _, k in able])}",
        )
    if query.up_to is not None:
        raise query_error(query.up_to.at, "the bounds of a measure are known", "leave `up to` out")
    measure: Measure = "average" if query.measure == "rate" else query.measure
    return [
        (table, replace(put, of=Word(known.name, query.of.at), measure=measure)) for table, put, known in able
    ]


def measure_in(table: Askable) -> MeasuredAttribute | None:
    """Return the measure whose array a table is, or None for counts."""
    attributes = table.axes.attributes
    return attributes[-1] if attributes and isinstance(attributes[-1], MeasuredAttribute) else None


def _named(table: Word, tables: Sequence[Askable]) -> list[Askable]:
    found = [each for each in tables if each.name.casefold() == table.text.casefold()]
    if not found:
        names = list(dict.fromkeys(each.name for each in tables))
        what = f"there is no table {plain(table.text)}"
        raise query_error(table.at, what, f"known are {listed(names, 16)}")
    return found


def _refuse_unknown(name: Word, tables: Sequence[Askable]) -> NoReturn:
    names = [attribute.name for table in tables for attribute in table.axes.attributes]
    known = list(dict.fromkeys(names))
    if name.text in known:
        measures = list(
            dict.fromkeys(each.name for table in tables if (each := measure_in(table)) is not None)
        )
        hint = f"measures are {listed(measures, 16)}" if measures else "this release has no measures"
        raise query_error(name.at, f"{plain(name.text)} is an attribute, and no measure of this kind", hint)
    near = close(name.text, known)
    guess = f"did you mean {plain(near)}? " if near is not None else ""
    what = f"there is no measure or attribute {plain(name.text)}"
    raise query_error(name.at, what, f"{guess}known are {listed(known, 16)}")


def _has(table: Askable, name: str) -> bool:
    return name.rpartition(".")[2] in {known.casefold() for known in known_names(table.axes.attributes)}
