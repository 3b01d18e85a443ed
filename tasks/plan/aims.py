"""Aims: what the targets of a spec ask of the margins of every table and level, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.bounds_like import Counts, quantile_count
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.validations.release_spec.targets import Target


@dataclass(frozen=True)
class MarginTarget:
    """A largest margin of error for the cells of one level of a table or of an array.

    Attributes
    ----------
    table
        Name of the table, or of the array of a measure.
    depth
        Of the level.
    margin
        Half-width at the spec's level of confidence; of whole numbers whole, of a measure in its unit.
    at
        The count or sum at which it is wanted, of a mean the number of records; None for all cells.
    words
        The target as it was written.
    value
        The mean at which it is wanted.
    """

    table: str
    level: str
    depth: int
    margin: float
    at: float | None
    words: str
    value: float | None = None


def aims_of(model: PlannedModel, counts: Counts | None) -> list[MarginTarget]:
    """Return what the targets of a spec ask for; a target without a level is about every published one.

    Parameters
    ----------
    counts
        Public ones, by which parts of unreliable cells are judged.

    Raises
    ------
    InputError
        No budget could meet one.
    """
    return [
        _aim(model, target, level, depth, counts)
        for target in model.loaded.spec.targets
        for level, depth in model.shown(target.array).items()
        if target.level in (None, level)
    ]


def even_aims(model: PlannedModel) -> list[MarginTarget]:
    """Return one aim for all: the same margin at every published level of the counts of every table."""
    return [
        MarginTarget(table.name, level, depth, 100.0, None, "as narrow as can be")
        for table in model.loaded.spec.tables
        for level, depth in model.shown(table.name).items()
    ]


def _aim(model: PlannedModel, target: Target, level: str, depth: int, counts: Counts | None) -> MarginTarget:
    at = None if target.at is None else float(target.at)
    margin = target.largest
    if margin is None:
        margin, at = _reliable(model, target, level, depth, counts)
    reading = model.reading(target.array)
    size = reading.largest(float(margin))
    if not size > 0:
        raise InputError(
            f"whole numbers have no margin of error below {reading.step:g}",
            where=f"targets, {in_words(target.array, '')}",
            hint=f"aim for a margin of at least {reading.step:g}",
        )
    value = None if target.value is None else float(target.value)
    return MarginTarget(target.array, level, depth, size, at, target.words, value)


def _reliable(
    model: PlannedModel, target: Target, level: str, depth: int, counts: Counts | None
) -> tuple[Fraction, float | None]:
    """Return the margin that leaves so many cells reliable, and the count at which that is decided."""
    quality = model.loaded.spec.publication.quality
    assert quality is not None and quality.unreliable is not None  # noqa: S101 - the spec's own check
    if isinstance(quality.unreliable, int):
        return Fraction(quality.unreliable), None
    if counts is None or target.table not in counts:
        raise InputError(
            "public counts must say how many cells are unreliable",
            where=f"targets, table {target.table}",
            hint="name a release with --like, or declare public totals as invariants",
        )
    depths = model.agreement.layouts[target.table]
    nodes = [0] if depths.along is None else depths.along.depth[: depths.nodes] == depth
    part = float(target.unreliable or 0)
    count = quantile_count(counts[target.table][nodes], part)
    if count < 1:
        raise InputError(
            f"more than {100 * part:g} % of the cells of {in_words(target.table, level)} are empty by public "
            "counts, and no budget makes those reliable",
            where="targets",
            hint="allow more unreliable cells, or cross fewer columns",
        )
    return quality.unreliable * Fraction(count), count


def in_words(array: str, level: str) -> str:
    """Return a table, or a measure of one, and its level in a few words."""
    name = array.replace("-", ": ", 1)  # the name of a table has none
    return f"{name}, {level}" if level else name


def by_place(aims: Sequence[MarginTarget]) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of the aims of every (table, level)."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, aim in enumerate(aims):
        found.setdefault((aim.table, aim.level), []).append(number)
    return found
