"""Budget spent over time, per account, and on whom: as the certificates say it, no ledger is asked.

A certificate says what its account had used when the release was charged, that charge included. So between
two releases the pages also know what else was charged, or given back, but not for what; and of what came
after an account's newest release they know nothing. A release that was superseded or withdrawn counts like
any other: nothing of its budget comes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cached_property

from tabularium.ledger.records import SYMBOLS
from tabularium.tasks.site.offered import PublishedRelease
from tabularium.validations.certificate import Account

WIDE, HIGH = 1000.0, 300.0
_MARGIN = 40.0


@dataclass(frozen=True)
class Step:
    """One release in the course of its account.

    Attributes
    ----------
    between
        What was charged since the release before it and is none of these releases; below zero if given back.
    amount, used, cap
        Its charge, all that the account had used then with it, and the cap then.
    """

    release: PublishedRelease
    between: Fraction
    amount: Fraction
    used: Fraction
    cap: Fraction


@dataclass(frozen=True)
class AccountHistory:
    """An account over time, the oldest step first.

    Attributes
    ----------
    number
        Its place on the page, from 1.
    terms
        The account as its newest certificate has it.
    ledger
        The hash of its ledger's first entry, by which accounts of one name are told apart.
    """

    number: int
    terms: Account
    ledger: str
    steps: list[Step]

    @property
    def symbol(self) -> str:
        """ε or ρ."""
        return SYMBOLS[self.terms.definition]

    @property
    def used(self) -> Fraction:
        """What the account had used when its newest release was charged."""
        return self.steps[-1].used

    @property
    def left(self) -> Fraction:
        """What was left of the cap then."""
        return self.terms.cap - self.used

    @cached_property
    def most(self) -> Fraction:
        """The top of the picture."""
        return max(max(step.cap, step.used) for step in self.steps)

    def path(self, what: str) -> str:
        """Return ``used`` or ``cap`` as a line of steps, in an SVG of ``WIDE`` by ``HIGH``."""
        moments = [datetime.fromisoformat(step.release.said.account.reserved.at) for step in self.steps]
        first, span = moments[0], (moments[-1] - moments[0]).total_seconds()
        before = self.steps[0].used - self.steps[0].amount if what == "used" else self.steps[0].cap
        line = [f"M0 {self._height(before)}"]
        for moment, step in zip(moments, self.steps, strict=True):
            part = (moment - first).total_seconds() / span if span else 0.0
            at = f"{_MARGIN + part * (WIDE - 2 * _MARGIN):.1f}"
            line.append(f"H{at}V{self._height(getattr(step, what))}")
        return "".join([*line, f"H{WIDE:.1f}"])

    def _height(self, amount: Fraction) -> str:
        return f"{HIGH * (1 - float(amount / self.most)):.1f}"


@dataclass(frozen=True)
class PopulationShown:
    """How many releases one entity of a population may be in, by their state."""

    name: str
    accounts: list[AccountHistory]
    states: dict[str, int]

    @property
    def releases(self) -> int:
        """All of them: what was withdrawn was seen."""
        return sum(self.states.values())


@dataclass(frozen=True)
class Spent:
    """A plain sum over accounts of one definition and relation."""

    symbol: str
    relation: str
    used: Fraction
    accounts: int


@dataclass(frozen=True)
class EntityShown:
    """What is known of one kind of entity, over all populations."""

    name: str
    populations: list[PopulationShown]
    spent: list[Spent]

    @property
    def releases(self) -> int:
        """How many releases an entity may be in that is in every population."""
        return sum(each.releases for each in self.populations)


def courses(releases: Iterable[PublishedRelease]) -> list[AccountHistory]:
    """Return the course of every account, sorted by name."""
    grouped: dict[tuple[str, str], list[PublishedRelease]] = defaultdict(list)
    for each in releases:
        grouped[each.said.account.name, each.said.ledger.head.chain].append(each)
    found = []
    for number, ((_, ledger), some) in enumerate(sorted(grouped.items()), 1):
        some.sort(key=lambda each: each.said.account.reserved.entry)
        steps, used = [], Fraction(0)
        for each in some:
            account = each.said.account
            between = account.cap - account.reserved.left_before - used
            used = account.cumulative.used
            steps.append(Step(each, between, account.reserved.amount, used, account.cap))
        found.append(AccountHistory(number, some[-1].said.account, ledger, steps))
    return found


def entities(accounts: Iterable[AccountHistory]) -> list[EntityShown]:
    """Return what one entity of each kind may be in, and what was spent on it."""
    kinds: dict[str, dict[str, list[AccountHistory]]] = defaultdict(lambda: defaultdict(list))
    for each in accounts:
        kinds[each.terms.entity][each.terms.population].append(each)
    return [
        EntityShown(
            entity,
            [_population(name, some) for name, some in sorted(populations.items())],
            _spent(each for some in populations.values() for each in some),
        )
        for entity, populations in sorted(kinds.items())
    ]


def _population(name: str, accounts: list[AccountHistory]) -> PopulationShown:
    states = dict.fromkeys(("current", "superseded", "withdrawn"), 0)
    for account in accounts:
        for step in account.steps:
            states[step.release.state] += 1
    return PopulationShown(name, accounts, states)


def _spent(accounts: Iterable[AccountHistory]) -> list[Spent]:
    sums: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
    for each in accounts:
        sums[each.symbol, each.terms.relation].append(each.used)
    return [Spent(*kind, sum(some, Fraction(0)), len(some)) for kind, some in sorted(sums.items())]
