"""From a query and a table's attributes to the cells that are asked for.

A plan is a product: of every attribute the chosen cells, and the rows that they are shared out to. A query
with ``or`` over several attributes becomes several plans that share no cell (:mod:`.region`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mechanisms.inference.arrays import Bools, Floats
from mechanisms.queries.attributes import AnyAttribute, Groups, close, listed
from mechanisms.queries.grammar import (
    Comparison,
    Either,
    Measure,
    Member,
    Null,
    Query,
    Test,
    Word,
    plain,
    query_error,
)
from mechanisms.queries.open_bins import closed
from mechanisms.queries.region import Region

Place = tuple[int, str | None]
"""Which attribute, and which of its levels if one is named."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is asked of one table.

    Attributes
    ----------
    measure
        What is computed.
    of
        Which attribute it is computed of; None for a count.
    numbers
        Of it, the smallest and the largest number of each cell that the query chooses; ones for a count.
    masks
        Of every attribute, (cells,): which cells are chosen.
    by
        Which attributes make the rows, in the order asked for, with their groups.
    headings
        The names of ``by`` as they were asked for.
    """

    measure: Measure
    of: int | None
    numbers: tuple[Floats, Floats]
    masks: tuple[Bools, ...]
    by: tuple[tuple[int, Groups], ...]
    headings: tuple[str, ...]


def plans(query: Query, attributes: Sequence[AnyAttribute], *, tree: bool = False) -> tuple[Plan, ...]:
    """Bind a query to the attributes of a table.

    Parameters
    ----------
    tree
        Whether the first attribute is the hierarchy whose nodes are the rows of the table.

    Returns
    -------
    Plans that together choose each chosen cell once; of a query without ``or`` over several attributes, one.
    All have the same ``numbers``, those of the cells that any of them chooses. Two of them differ in the
    cells of another attribute than the hierarchy, whose noise is independent of each other.

    Raises
    ------
    InputError
        Naming the character of what is not known, cannot be told apart, or cannot be computed.
    """
    region = chosen(query.where, attributes, tree=tree)
    boxes = region.boxes or (tuple(np.zeros(attribute.cells, bool) for attribute in attributes),)
    of, numbers = None, (np.ones(1), np.ones(1))
    if query.of is not None:
        of, _ = find(query.of, attributes)
        mask = np.logical_or.reduce([box[of] for box in boxes])
        low, high = attributes[of].values(mask, query.of.at)  # which refuses what is not a number
        if query.measure in {"sum", "average"}:
            high = closed(attributes[of], (low, high), mask, query.of, query.up_to)
        numbers = low[mask], high[mask]
    by: list[tuple[int, Groups]] = []
    for name in query.by:
        place, level = find(name, attributes)
        if place == of:
            raise query_error(
                name.at,
                f"{query.measure} of {plain(name.text)} by itself says nothing",
                "leave it out of `by`",
            )
        if any(place == other for other, _ in by):
            raise query_error(name.at, f"{plain(name.text)} is here twice", "name one level of it")
        by.append((place, attributes[place].groups(level)))
    headings = tuple(name.text for name in query.by)
    return tuple(Plan(query.measure, of, numbers, box, tuple(by), headings) for box in boxes)


def chosen(tests: Sequence[Test], attributes: Sequence[AnyAttribute], *, tree: bool = False) -> Region:
    """Return the cells in which all tests hold.

    Raises
    ------
    InputError
        As for :func:`plans`.
    """
    region = Region.everything(attributes, tree=tree)
    for test in tests:
        if isinstance(test, Either):
            options = [chosen(option, attributes, tree=tree) for option in test.options]
            region &= reduce(Region.__or__, options)
        else:
            place, mask = bound(test, attributes)
            region &= Region.everything(attributes, tree=tree).where(place, mask)
    return region


def known_names(attributes: Sequence[AnyAttribute]) -> list[str]:
    """Return every name that a query may use, attributes first."""
    names = [attribute.name for attribute in attributes]
    return list(dict.fromkeys([*names, *(level for a in attributes for level in a.levels)]))


def find(word: Word, attributes: Sequence[AnyAttribute]) -> Place:
    """Return the attribute, and the level, that a name means.

    An attribute's own name comes before names of levels; ``attribute.level`` is never ambiguous.

    Raises
    ------
    InputError
        If there is no such name, or several attributes have a level of that name.
    """
    place = _find(word, attributes)
    if place is not None:
        return place
    names = known_names(attributes)
    near = close(word.text, names)
    guess = f"did you mean {plain(near)}? " if near is not None else ""
    raise query_error(
        word.at, f"there is no attribute {plain(word.text)}", f"{guess}known are {listed(names, 16)}"
    )


def _find(word: Word, attributes: Sequence[AnyAttribute]) -> Place | None:
    text = word.text.casefold()
    for place, attribute in enumerate(attributes):
        if attribute.name.casefold() == text:
            return place, None
    places = [
        (place, level)
        for place, attribute in enumerate(attributes)
        for level in attribute.levels
        if text in (level.casefold(), f"{attribute.name}.{level}".casefold())
    ]
    if len(places) > 1:
        full = [f"{attributes[place].name}.{level}" for place, level in places]
        raise query_error(
            word.at, f"several attributes have a level {plain(word.text)}", f"write {listed(full)}"
        )
    return places[0] if places else None


def bound(test: Comparison | Member | Null, attributes: Sequence[AnyAttribute]) -> tuple[int, Bools]:
    """Return which attribute a test is about, and in which of its cells it holds."""
    if isinstance(test, Null):
        raise query_error(test.name.at, "a release does not say which values were null", "leave the test out")
    if isinstance(test, Member):
        place, level = find(test.name, attributes)
        mask = attributes[place].mask(test.values, level)
        return place, ~mask if test.negated else mask
    if test.either and _find(test.left, attributes) is None and _find(test.right, attributes) is not None:
        test = test.flipped
    place, level = find(test.left, attributes)
    attribute = attributes[place]
    if test.op in {"=", "!="}:
        mask = attribute.mask([test.right], level)
        return place, mask if test.op == "=" else ~mask
    return place, attribute.span(test.op, test.right, level)
