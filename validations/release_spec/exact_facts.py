"""Exact facts of a release, and which inputs its guarantee therefore compares.

A rule that stops a run is a fact about the data once there is a release: a reader of ``row_count`` with a
``min`` and a ``max`` of 600 in a published spec knows n. The same goes for the limit on rejected records and
for invariants. None of it is charged. So it is listed, and the guarantee is read for neighbouring inputs that
both satisfy it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Literal

from tabularium.mechanisms.accounting import PrivacyLoss
from tabularium.validations.derivation import open_values, source_column
from tabularium.validations.domains.domains import Domain, HierarchyDomain, NumberDomain, cut
from tabularium.validations.release_spec.columns import HierarchyColumn
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import (
    InvalidRule,
    NullsRule,
    NumbersRule,
    Privacy,
    RangeRule,
    RowCountRule,
    Rule,
    UniqueRule,
)
from tabularium.validations.release_spec.source import taken_from
from tabularium.validations.release_spec.tables import Invariant
from tabularium.validations.universes.universe import test_of, universe_of

Kind = Literal[
    "release",
    "review",
    "withheld",
    "attempts",
    "tallies",
    "revision",
    "source",
    "look-up",
    "limit",
    "rule",
    "invariant",
    "operators",
]


@dataclass(frozen=True)
class ExactFact:
    """Something that a release says exactly and that its budget does not cover.

    Attributes
    ----------
    name
        Of the rule, limit or invariant; the kind again where there is one of it.
    what
        In words, with its numbers.
    """

    kind: Kind
    name: str
    what: str

    def as_dict(self) -> dict[str, str]:
        """Return JSON-able values."""
        return {"kind": self.kind, "name": self.name, "what": self.what}


@dataclass(frozen=True)
class Neighbours:
    """Which inputs the guarantee compares, once all exact facts are taken as known.

    Attributes
    ----------
    change
        ``add-remove`` or ``replace``: how the nearest two allowed inputs differ.
    units
        How many units the smallest allowed change adds, removes or replaces; 0 where the invariants leave no
        other input, None where it cannot be stated.
    loss
        What this change costs; the cost of one unit replaced where ``units`` is None or 0.
    fixed
        What the facts fix: nothing, a total, or marginals, which count a unit's values.
    """

    change: Literal["add-remove", "replace"]
    units: int | None
    loss: PrivacyLoss
    fixed: Literal["total", "marginals"] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        amount = "epsilon" if self.loss.definition == "pure" else "rho"
        known = {} if not self.units else {amount: str(self.loss.amount)}
        return {"fixed": self.fixed, "change": self.change, "units": self.units, **known}

    @classmethod
    def of(
        cls,
        change: Literal["add-remove", "replace"],
        units: int | None,
        fixed: Literal["total", "marginals"] | None,
        privacy: Privacy,
    ) -> Neighbours:
        """Return the sentence about neighbours, with what the change costs under this budget."""
        return cls(change, units, privacy.loss if fixed is None else _cost(privacy, units), fixed)


def neighbours(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> Neighbours:
    """Return which inputs are the nearest to one another that satisfy the same exact facts.

    Replacing m units is removing m and adding m: 2mε or (2m)²ρ under add-remove, mε or m²ρ under replace.
    What lies between the two inputs need not be allowed: the mechanisms protect all inputs, and the
    facts only choose among them.

    The count of :func:`replaced_records` is of records, over columns that may take any values together. Where
    units have several records, one unit may make a whole change by itself or none at all, and where columns
    are made from one another, or some values cannot occur together, not all of them go together: above one
    record no number is given then.

    ``domains``: of all columns that the tables count.
    """
    privacy = spec.privacy
    if not (spec.invariants or _rows_are_fixed(spec)):
        return Neighbours(privacy.relation, 1, privacy.loss)
    cells = _cells(spec, domains)
    # No invariant distinguishes columns that are read besides the cells, where these leave them open.
    open_columns, bound = open_values(_read(spec), cells, spec.columns, domains)
    columns = {name for name, size in cells.items() if size > 1} | {
        f"value of {name}" for name in open_columns
    }
    seen = [_seen(spec, known, cells, domains) for known in spec.invariants]
    units: int | None = replaced_records(sorted(columns), seen or [frozenset()])
    if (privacy.max_contributions > 1 and units != 1) or (
        seen and any(seen) and (bound or spec.impossible or _depend(spec, cells))
    ):
        units = None
    finer = any(known.dimensions for known in spec.invariants)
    return Neighbours("replace", units, _cost(privacy, units), "marginals" if finer else "total")


def _read(spec: ReleaseSpec) -> set[str]:
    """Return the columns of the source whose values are read themselves, and not only coded."""
    return {*spec.identifiers, *spec.measured_columns}


def _depend(spec: ReleaseSpec, counted: Iterable[str]) -> bool:
    """Whether counted columns go together: one is made from others, or two come from one of the source.

    What a public look-up gives goes with what is looked up.
    """
    columns = {name: spec.columns[name] for name in counted if name in spec.columns}
    sources = [source_column(name, column) for name, column in columns.items()]
    places = {taken_from(name, spec.lookups)[0] for name in (*sources, *_read(spec)) if name is not None}
    given = any(spec.lookups[look_up].public is not None for look_up in places if look_up)
    return given or None in sources or len(set(sources)) < len(sources)


def _cost(privacy: Privacy, units: int | None) -> PrivacyLoss:
    """Return what replacing so many units costs; replacing one where the number is 0 or not known."""
    return privacy.loss.for_unit((1 if privacy.relation == "replace" else 2) * (units or 1))


def _rows_are_fixed(spec: ReleaseSpec) -> bool:
    """Whether a rule leaves one number of rows."""
    rules = [rule for rule in stopping(spec) if isinstance(rule, RowCountRule)]
    return any(rule.max is not None and rule.max <= (rule.min or 0) for rule in rules)


def _cells(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> dict[str, int]:
    """Return how many values of each column the tables tell apart: a hierarchy down to its deepest table."""
    cells: dict[str, int] = {}
    nulls: set[str] = set()
    for table in spec.tables:
        for name in table.dimensions:
            level = list(table.levels)[-1] if name == table.along else None
            cells[name] = max(_values(domains[name], level), cells.get(name, 0))
        tests = [] if table.where is None else [universe_of(table.where, domains)]
        tests += [
            test_of(measure.test, domains) for measure in table.measures.values() if measure.test is not None
        ]
        for name in (name for test in tests for name in test.about):
            if name in domains:
                cells[name] = domains[name].size
        nulls = nulls.union(*(test.about_nulls for test in tests))
    for name in sorted(nulls):
        coded = [
            coding for coding in domains if name in (coding, source_column(coding, spec.columns[coding]))
        ]
        if all(_leaves_nulls_open(domains[coding], counted=coding in cells) for coding in coded):
            cells[f"nulls of {name}"] = 2
    return cells


def _leaves_nulls_open(domain: Domain, *, counted: bool) -> bool:
    """Whether a record that this column keeps may be null there, and its cell does not say so."""
    shared = domain.invalid == "other" or not isinstance(domain, NumberDomain)
    return domain.nulls == "other" and (shared or not counted)


def _values(domain: Domain, level: str | None) -> int:
    """Return how many values a column has, a hierarchy at a level."""
    return len(cut(domain, level)) if isinstance(domain, HierarchyDomain) and level else domain.size


def _seen(
    spec: ReleaseSpec, known: Invariant, cells: dict[str, int], domains: Mapping[str, Domain]
) -> frozenset[str]:
    """Return the columns any two of whose values an invariant tells apart."""
    along, level = along_of(spec, known)
    return frozenset(
        name
        for name in known.dimensions
        if _values(domains[name], level if name == along else None) >= cells[name]
    )


def along_of(spec: ReleaseSpec, known: Invariant) -> tuple[str | None, str | None]:
    """Return the hierarchical dimension of an invariant that stands at a level, and the level; or neither."""
    holders = [
        table.along
        for table in spec.tables
        if set(known.dimensions) <= set(table.dimensions) and table.where is None
    ]
    along = next((name for name in holders if name in known.dimensions), None)
    if along is None:
        return None, None
    column = spec.columns[along]
    return along, known.level or (column.levels[-1] if isinstance(column, HierarchyColumn) else "")


def stopping(spec: ReleaseSpec) -> list[Rule]:
    """Return the rules that reveal an exact fact by having held: those that stop a run and are not noisy."""
    return [rule for rule in spec.rules if rule.severity == "stop" and rule.noisy is None]


def exact_facts(spec: ReleaseSpec) -> list[ExactFact]:
    """Return the exact facts that follow from this spec once there is a release.

    They are its limit, its rules, its invariants, and what it takes for public: nothing covers a look-up that
    is not.

    Rules that only warn are not among them: whether they held stays with the operators. Nor are noisy rules,
    which are charged.
    """
    limit, facts = spec.source.max_rejected, []
    if isinstance(limit, int) or limit < 1:
        at_most = f"{limit:,} records" if isinstance(limit, int) else f"{_percent(limit)} of the records"
        fact = "no record was rejected" if not limit else f"at most {at_most} were rejected"
        facts.append(ExactFact("limit", "max_rejected", f"max_rejected: {fact}"))
    facts += [ExactFact("rule", rule.name, f"{rule.name}: {in_words(rule)}") for rule in stopping(spec)]
    facts += [
        ExactFact("look-up", name, f"{name}: taken for public and fixed, and not protected ({look.public})")
        for name, look in spec.lookups.items()
        if look.public is not None
    ]
    for known in spec.invariants:
        level = f", at level {known.level}" if known.level else ""
        what = (
            f"counts by {', '.join(known.dimensions)}{level}" if known.dimensions else f"total {known.count}"
        )
        fact = f"{known.name}: {what}, shown exactly ({known.reason})"
        if known.on_conflict == "publish":
            fact += "; also where the measurements contradict it, which no margin of error covers"
        facts.append(ExactFact("invariant", known.name, fact))
    return facts


def facts_of_release(
    spec: ReleaseSpec, attempts: int, tallies: Sequence[int] = (), withheld: Sequence[tuple[str, bool]] = ()
) -> list[ExactFact]:
    """Return every exact fact of one release: what is true of any, then what follows from its spec.

    Parameters
    ----------
    attempts
        How many times drawing began.
    tallies
        The same of each charge for tallies; each was made for another input.
    withheld
        For each draft of the account that was withheld before: the criterion, and whether confidential
        figures were consulted.
    """
    facts = [
        ExactFact(
            "release",
            "release",
            "that this release exists, and when it was made; and of the charges of its account before it, "
            "published or not, how many there are and what they cost: each was made because its own exact "
            "rules held",
        ),
        ExactFact(
            "source",
            "source",
            "that the source and its look-ups could be read: the source holds records, there are numbers "
            "where numbers are declared, and what is measured is a number or null but for what a rule allows",
        ),
        ExactFact("attempts", "attempts", _attempts(spec, attempts, tallies)),
    ]
    if len(tallies) > 1:
        fact = (
            f"that {len(tallies)} inputs were tried, one after the other; what each cost is part of the price"
        )
        facts.append(ExactFact("tallies", "tallies", fact))
    facts += _selections(spec, withheld)
    if spec.revises is not None:
        facts.append(ExactFact("revision", "revision", f"that this is a revision ({spec.revises})"))
    facts += exact_facts(spec)
    fact = "whether rules that only warn held, exact counts of rows, how long the run took and its memory"
    return [*facts, ExactFact("operators", "operators", f"for the operators, and nobody else: {fact}")]


def _selections(spec: ReleaseSpec, withheld: Sequence[tuple[str, bool]]) -> list[ExactFact]:
    """Return what officers chose to publish and to withhold, which they may have done by what they saw."""
    facts, margins = [], "the margins of error hold before that selection"
    if spec.publication.review is not None:
        criteria = ", ".join(spec.publication.review.criteria)
        fact = f"that it is published at all: an officer may withhold a draft ({criteria}); {margins}"
        facts.append(ExactFact("review", "review", fact))
    if withheld:
        number, consulted = len(withheld), sum(consulted for _, consulted in withheld)
        drafts = "1 draft of this account was" if number == 1 else f"{number} drafts of this account were"
        criteria = ", ".join(sorted({criterion for criterion, _ in withheld}))
        fact = f"that {drafts} withheld by officers ({criteria}); what that cost is named with the charge"
        if consulted:
            fact += f"; for {consulted} of them confidential figures were consulted, for which no budget pays"
        fact += f"; {margins}"
        facts.append(ExactFact("withheld", "withheld", fact))
    return facts


def _attempts(spec: ReleaseSpec, attempts: int, tallies: Sequence[int]) -> str:
    if all(number == 1 for number in (attempts, *tallies)):
        return "that its noise was drawn in one attempt"
    tally_part = f", that of its tallies in {' and '.join(map(str, tallies))}" if tallies else ""
    most = attempts * spec.main_amount + sum(tallies) * spec.tally_amount
    return (
        f"that its noise was drawn in {attempts} attempts{tally_part}; if crashes had depended on the noise, "
        f"the loss could be up to {'' if tally_part else 'attempts × '}{spec.privacy.symbol} = {most}"
    )


def in_words(rule: Rule) -> str:
    """Say what holds for the data when a rule holds."""
    if isinstance(rule, NullsRule):
        return f"at most {_percent(rule.at_most)} of the rows are null"
    if isinstance(rule, InvalidRule):
        return f"at most {_percent(rule.at_most)} of the rows lie outside the domain"
    if isinstance(rule, NumbersRule):
        return f"at most {_percent(rule.at_most)} of the rows hold something that is no number, and no null"
    if isinstance(rule, UniqueRule):
        return "no two rows agree in these columns"
    ends = [
        f"at {end} {value:,}" for end, value in (("least", rule.min), ("most", rule.max)) if value is not None
    ]
    if isinstance(rule, RangeRule):
        return f"all values are {' and '.join(ends)}"
    things = "rows" if rule.noisy is None else "privacy units, by their noisy number"
    words = [f"{' and '.join(ends)} {things}"] if ends else []
    if rule.change_from_last is not None:
        words.append(
            f"the total differs from the one published for the period before, if there is one, by at most "
            f"{_percent(rule.change_from_last)} of it; where that is less than one row it fixes the "
            "total, and then nothing can be added or removed by itself"
        )
    return "; ".join(words)


def _percent(part: Fraction) -> str:
    return f"{float(100 * part):g} %"


# How many records the smallest change replaces that leaves every invariant as it is.
#
# Write an input as a vector x of counts over the cells of all counted columns together, and say that an
# invariant *sees* a column if it tells any two of its values apart (a hierarchy at a level above its leaves
# is not seen). An allowed change z = x' - x sums to zero in every cell of every invariant. Let k be the
# size of the smallest set of columns, of two values or more each, that no one invariant sees as a whole.
# Then the smallest z other than zero has Σ|z| = 2^k: 2^(k-1) records are replaced.
#
# *No more.* Take two values in each of these k columns and one fixed value in every other column. The
# product over the k columns of (first value - second value) has 2^k entries ±1. Every invariant fails to
# see one of the columns, so that z sums to zero along it: over the whole column where the invariant lacks
# it, within one cell where it has it at a higher level and the two values are taken from that cell. (One
# choice of two values, from the deepest cell that has several, serves all levels, since a deeper level
# would tell all values apart.)
#
# *No less.* Any k - 1 columns are seen by one invariant, so every marginal of z over k - 1 columns is zero.
# Such a z has at least 2^k entries that are not zero, by induction over k. For k = 1 its sum is zero, so it
# has two. For k > 1 some column has two slices that are not zero, or z were a single entry, whose sum is
# not zero. In every slice each marginal over k - 2 of the other columns is zero, so each of the two has
# 2^(k-1) such entries.
#
# A fixed total by itself gives k = 1, one record replaced by any other. Where one invariant sees every
# column, no other input is allowed at all.


def replaced_records(columns: Iterable[str], seen: Collection[frozenset[str]]) -> int:
    """Return how many records the smallest allowed change replaces; 0 where no change is allowed.

    Parameters
    ----------
    columns
        Names of all counted columns that have two values or more.
    seen
        For each invariant the columns that it sees; an empty set for a total.

    Examples
    --------
    >>> replaced_records(["sex", "age"], [frozenset()])
    1
    >>> replaced_records(["sex", "age"], [frozenset({"sex"}), frozenset({"age"})])
    2
    >>> replaced_records(["sex", "age"], [frozenset({"sex", "age"})])
    0
    """
    names = list(columns)
    for size in range(1, len(names) + 1):
        if not all(
            any(columns_seen.issuperset(some) for columns_seen in seen) for some in combinations(names, size)
        ):
            return int(2 ** (size - 1))
    return 0
