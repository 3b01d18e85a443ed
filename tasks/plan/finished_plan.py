"""A plan that was found: a spec with budget, shares and levels, and what is to be known of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tabularium.tasks.plan.aims import in_words
from tabularium.tasks.plan.bounds_like import Bounds
from tabularium.tasks.plan.planned_model import array_shares
from tabularium.tasks.plan.rehearsal import Proposal
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.targets import Tuning

MET = 1.01
"""Predicted over wanted margin up to which a simulation says that a target is met: it knows no better."""


@dataclass(frozen=True)
class PlannedMargin:
    """What a plan says of one level of a table or of the array of a measure.

    Attributes
    ----------
    table
        Name of the table or of the array.
    target
        In words; empty where none is about it.
    wanted
        The largest margin that its targets allow; None without one.
    margin
        The predicted one: of the worst cell where errors are linear, on average where it was simulated.
    part
        Of the tables' budget that measures this level; 0 where it is added up from others.
    drives
        Part of the budget that would not be needed but for these targets.
    """

    table: str
    level: str
    target: str
    wanted: float | None
    margin: float
    part: Fraction
    drives: float

    @property
    def measure(self) -> str | None:
        """The measure that it is about; None of counts."""
        return self.table.partition("-")[2] or None

    @property
    def where(self) -> str:
        """Table and level."""
        return in_words(self.table, self.level)


@dataclass(frozen=True, eq=False)
class Plan:
    """A spec with planned budget, shares and levels.

    Attributes
    ----------
    loaded
        The spec with them.
    margins
        Table by table and level by level.
    trade_off
        Budgets, and the margins that the same shares give with them, in the order of ``margins``.
    gap
        Part of the budget that other shares could save at most; None where that is not known.
    tuning
        The release on whose counts it was chosen.
    simulated
        Whether margins of counts are those of simulated releases.
    kept
        Measures whose losses were not looked for, as ``table: measure``.
    closer
        Tables that will agree with others on more than the margins know of, which makes them narrower.
    bounds
        What the release says of the bounds of measures.
    bounded
        Whether the spec has been given these.
    proposals
        What other mechanisms would make of the same counts.
    rest
        Tables without a target, where others have one.
    given
        Whether the budget was: these share what targets leave of it, and else keep their shares.
    """

    loaded: Loaded
    margins: tuple[PlannedMargin, ...]
    trade_off: tuple[tuple[Fraction, tuple[float, ...]], ...]
    gap: float | None
    tuning: Tuning | None
    simulated: bool
    kept: tuple[str, ...]
    closer: tuple[str, ...]
    bounds: tuple[Bounds, ...]
    bounded: bool
    proposals: tuple[Proposal, ...]
    rest: tuple[str, ...] = ()
    given: bool = False

    @property
    def budget(self) -> Fraction:
        """Of the whole release, for one unit."""
        return self.loaded.spec.privacy.budget

    def split(self, table: str) -> bool:
        """Whether the shares of a table's counts and measures were looked for."""
        arrays = array_shares(next(each for each in self.loaded.spec.tables if each.name == table))
        return len(arrays) > 1 + len([name for name in arrays if in_words(name, "") in self.kept])

    @property
    def missed(self) -> list[PlannedMargin]:
        """Levels whose margin is wider than wanted; none where the budget was free."""
        return [each for each in self.margins if each.wanted and each.margin > each.wanted * MET]
