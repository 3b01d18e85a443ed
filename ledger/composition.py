"""The price of charges together: in sequence, or in parallel where that is allowed.

In sequence the amounts add up: ε by basic composition, ρ by Bun and Steinke 2016, Lemma 1.7. In parallel,
over the parts of one *assignment* of privacy units to parts, a unit loses only what the parts that hold it
lose. It is in at most c parts: c is 1, or the bound that the assignment keeps over all of them. So the whole
group of charges costs the sum of its c dearest parts; inside a part charges add up. Under ``replace``
a unit leaves parts and enters others, so twice as many count. An assignment holds within one period, because
a person exists in every period; only where the privacy unit is itself a unit and a period (its name ends in
``-period``) may periods be parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from heapq import nlargest
from typing import TypeVar

from tabularium.ledger import names
from tabularium.ledger.records import NOTHING, Quanta
from tabularium.ledger.refusals import BadValue

LARGEST_CONTRIBUTIONS = 10**6
_ASSIGNMENT = re.compile(r"[A-Za-z0-9:._-]{1,128}")

Number = TypeVar("Number", int, Fraction)
#: In how many parts of a group one unit can be, and what each part has reserved and spent.
Parts = tuple[int, dict[str, Quanta]]


@dataclass(frozen=True)
class Partition:
    """Which part of which assignment a release is about.

    Attributes
    ----------
    assignment
        Digest of the rule by which the counting query itself gives each unit to parts.
    part
        The part that this release reads, and no other.
    contributions
        In how many parts one unit can be, at most: 1 if the rule gives it to exactly one.
    """

    assignment: str
    part: str
    contributions: int = 1

    def checked(self) -> Partition:
        """Return it, or raise ``BadValue``."""
        if not (isinstance(self.assignment, str) and _ASSIGNMENT.fullmatch(self.assignment)):
            raise BadValue(
                "is not a digest of letters, digits, colons, dots, dashes or underscores",
                where="assignment",
                hint="give the digest of the rule that assigns units to parts",
            )
        names.check_label(self.part, field="part")
        count = self.contributions
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= LARGEST_CONTRIBUTIONS:
            raise BadValue(
                "is not a whole number above zero",
                where="contributions",
                hint="say in how many parts one unit can be",
            )
        return self

    def group(self, period: str, unit: str) -> str:
        """Return the name of the group of charges that compose in parallel with this one."""
        return self.assignment if per_period(unit) else f"{self.assignment} {period}"


def per_period(unit: str) -> bool:
    """Whether a privacy unit is a unit in one period, so that another period is another unit."""
    return unit.endswith("-period")


def period_of(group: str) -> str | None:
    """Return the period that a group is bound to, or ``None`` if its parts may be periods."""
    return group.partition(" ")[2] or None


def affected_parts(contributions: int, relation: str) -> int:
    """Return how many parts of a group can tell two neighbouring data sets apart."""
    return contributions * (2 if relation == "replace" else 1)


def top_k_sum(parts: Iterable[Number], fold: int) -> Number:
    """Return what the parts of a group cost together: the sum of the ``fold`` dearest."""
    dearest = nlargest(fold, parts)
    total = dearest[0] - dearest[0] if dearest else 0
    for amount in dearest:
        total += amount
    return total  # type: ignore[return-value]


def group_change(parts: Mapping[str, Quanta], part: str, added: Quanta, fold: int) -> Quanta:
    """Return what (reserved, spent) of a group change by when ``added`` is added to one part of it.

    ``parts``: every part's own (reserved, spent) before.
    """
    reserved, spent = parts.get(part, NOTHING)
    after = {**parts, part: (reserved + added[0], spent + added[1])}
    used_more = _used(after, fold) - _used(parts, fold)
    spent_more = _spent(after, fold) - _spent(parts, fold)
    return used_more - spent_more, spent_more


def _used(parts: Mapping[str, Quanta], fold: int) -> int:
    return top_k_sum((reserved + spent for reserved, spent in parts.values()), fold)


def _spent(parts: Mapping[str, Quanta], fold: int) -> int:
    return top_k_sum((spent for _reserved, spent in parts.values()), fold)
