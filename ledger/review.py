"""The reviewer's view: what was spent on whom, plainly summed and as tightly as the theory allows.

Where every amount was settled beforehand, the plain sum bounds the loss, and so does the second figure, an ε
at a small δ that composes the charges as dp-accounting does (privacy loss distributions for ε-DP releases,
Canonne, Kamath and Steinke 2020 for ρ-zCDP). Where amounts were chosen in view of earlier releases, the
definition matters. Under pure ε the plain sum still holds: the loss of what was seen never exceeds the sum of
the ε's that were seen to be spent (Rogers, Roth, Ullman and Vadhan 2016). Under zCDP it does not: a cap that
was fixed beforehand is a filter, and the bound is that cap (Feldman and Zrnic 2021), not what happens to have
been spent under it. A cap that was raised in view of releases was not fixed beforehand.

Charges over parts of one partition count there as one release at the cost of their dearest parts.

Over accounts, what is added is what one *entity* (a person, a household) loses. It may be in every population
but those that an officer has signed to be disjoint: populations are added that are linked by pairs that
nobody has declared so, and since an entity is in populations of one such cluster only, clusters stand apart.
Different entities are never added: to add a person is to *replace* their household, and from what bounds the
one change no simple sum follows for the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tabularium.ledger.composition import affected_parts, top_k_sum
from tabularium.ledger.records import SYMBOLS, Account, Charge, Usage
from tabularium.mechanisms.accounting import Event, epsilon_at

if TYPE_CHECKING:
    from tabularium.ledger.ledger import Ledger

#: At which δ an account of pure ε is reported, unless another is asked for.
DELTA = Fraction(1, 10**9)
BOTH_FIGURES_HOLD = (
    "Both figures hold where budgets were settled beforehand. Where a budget was chosen in view of earlier "
    "releases, a plain sum of ε still holds and the (ε, δ) does not; under zCDP only the cap does, as it was "
    "fixed beforehand."
)
#: (definition, ε or ρ) -> how often it is lost
Losses = Counter[tuple[str, Fraction]]
_MOST_KINDS = 200  # different amounts beyond which composing distributions takes too long


@dataclass(frozen=True)
class AccountView:
    """An account as a reviewer sees it.

    Attributes
    ----------
    plain
        Everything reserved and spent, summed: ε, or ρ under zCDP.
    epsilon, delta
        The same as an (ε, δ): the tightest bound that is known here, if amounts were settled beforehand.
    charges
        How many charges count: all but those that were voided.
    periods, products
        What is reserved and spent in each.
    """

    account: Account
    plain: Fraction
    epsilon: float
    delta: Fraction
    charges: int
    periods: dict[str, Usage]
    products: dict[str, Usage]


@dataclass(frozen=True)
class UnitView:
    """What one entity has lost over the accounts that protect it, products and years together.

    Attributes
    ----------
    unit, populations
        The entity, and the populations that are added because it may be in all of them.
    relation
        What the figures are about. Under ``"replace"`` all accounts of the unit count, an ``"add-remove"``
        one at twice its ε or four times its ρ, because to replace a unit is to remove one and add one. Under
        ``"add-remove"`` only the accounts of that relation can count: nothing follows from the others.
    plain
        The sum of the ε's, or ``None`` if an account is under zCDP, which has none.
    rho
        The sum of the ρ's, an ε-DP charge counting as ε²/2.
    whole
        Whether every account of the entity in these populations is counted.
    years, products
        The charges of each year (in which they were reserved) and product, each plainly added.
    years_rho, products_rho
        The same as ρ, an ε-DP charge counting as ε²/2: what can be added where definitions differ.
    """

    unit: str
    populations: list[str]
    relation: str
    accounts: list[str]
    plain: Fraction | None
    rho: Fraction
    epsilon: float
    delta: Fraction
    whole: bool = True
    years: dict[str, Fraction] = field(default_factory=dict)
    products: dict[str, Fraction] = field(default_factory=dict)
    years_rho: dict[str, Fraction] = field(default_factory=dict)
    products_rho: dict[str, Fraction] = field(default_factory=dict)

    @property
    def symbol(self) -> str:
        """What can be added: ε, or ρ where an account is under zCDP."""
        return SYMBOLS["zcdp" if self.plain is None else "pure"]

    @property
    def by_year(self) -> dict[str, Fraction]:
        """The charges of each year as what can be added, in order."""
        return dict(sorted((self.years_rho if self.plain is None else self.years).items()))

    @property
    def by_product(self) -> dict[str, Fraction]:
        """The charges of each product as what can be added, in order."""
        return dict(sorted((self.products_rho if self.plain is None else self.products).items()))

    def written(self, loss: Fraction) -> str:
        """Return a loss as people read it: an ε exactly, a ρ to four digits."""
        return f"{float(loss):.4g}" if self.plain is None else str(loss)


@dataclass(frozen=True)
class NotComposable:
    """Entities of populations that are one or may overlap: no sum bounds what they lose together."""

    units: list[str]
    populations: list[str]

    @property
    def why(self) -> str:
        """Why they are not added."""
        return (
            f"Not added: {' and '.join(self.units)} of {', '.join(self.populations)}. They are not one "
            "entity (a changed person replaces a household), so no simple sum of what each loses bounds both."
        )


class ChargeGroup(NamedTuple):
    """Charges of one account that count and are the same; ``number`` says how many there are."""

    amount: Fraction
    year: str
    product: str
    group: str | None
    part: str | None
    contributions: int
    number: int


def clusters(populations: Iterable[str], apart: Set[frozenset[str]]) -> list[list[str]]:
    """Return populations, together where they are linked by pairs that are not in ``apart``.

    The populations of one entity all share it, so no two of them are disjoint: they are in one cluster.
    """
    result: list[list[str]] = []
    for name in dict.fromkeys(populations):
        linked = [cluster for cluster in result if any({name, other} not in apart for other in cluster)]
        result = [cluster for cluster in result if cluster not in linked]
        result.append([*(other for cluster in linked for other in cluster), name])
    return result


class Reviewer:
    """Reads every account once, whatever is asked of it, and composes what is the same only once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read: dict[str, list[ChargeGroup]] = {}
        self._known: dict[tuple[frozenset[tuple[str, Fraction, int]], Fraction], float] = {}

    def account(self, name: str, delta: Fraction | None = None) -> AccountView:
        """Return the view of one account; ``delta`` is by default the account's, or :data:`DELTA`."""
        account = self._ledger.account(name)
        at, charges = delta or account.terms.delta or DELTA, self._charges(name)
        return AccountView(
            account=account,
            plain=account.reserved + account.spent,
            epsilon=self._epsilon(_losses(account, charges), at),
            delta=at,
            charges=sum(alike.number for alike in charges),
            periods=self._ledger.periods(name),
            products=self._ledger.products(name),
        )

    def units(self, delta: Fraction = DELTA) -> list[UnitView]:
        """Return what each entity has lost in its accounts together, one view per relation there.

        It may be in every data set of one cluster of populations, whose accounts compose in sequence; each
        cluster has views of its own, and an entity's total is the largest. An entity with accounts of both
        relations has a view of only the add-remove ones, and one of all its accounts under ``"replace"``:
        that is its total. The years and products are plain sums of the amounts, ε or ρ as their accounts
        have them, under the view's relation.
        """
        units: dict[str, list[Account]] = defaultdict(list)
        for account in self._accounts():
            units[account.unit].append(account)
        views = []
        for unit, all_of_it in units.items():
            for populations in self._clusters(all_of_it):
                accounts = [account for account in all_of_it if account.population in populations]
                added = [account for account in accounts if account.relation == "add-remove"]
                if added:
                    complete = len(added) == len(accounts)
                    views.append(self._unit(unit, populations, "add-remove", added, delta, complete))
                if len(added) < len(accounts):
                    views.append(self._unit(unit, populations, "replace", accounts, delta, True))
        return views

    def not_composable(self) -> list[NotComposable]:
        """Return the different entities of populations that are one or may overlap."""
        accounts, result = self._accounts(), []
        for populations in self._clusters(accounts):
            units = dict.fromkeys(account.unit for account in accounts if account.population in populations)
            if len(units) > 1:
                result.append(NotComposable([*units], populations))
        return result

    def _accounts(self) -> list[Account]:
        return [account for account in self._ledger.accounts() if not account.retired]

    def _clusters(self, accounts: Iterable[Account]) -> list[list[str]]:
        declared = [separation for separation in self._ledger.separations() if separation.holds]
        apart = {frozenset((separation.population, separation.other)) for separation in declared}
        return clusters((account.population for account in accounts), apart)

    def _charges(self, name: str) -> list[ChargeGroup]:
        if name not in self._read:
            self._read[name] = _counted(self._ledger.budgeted(name))
        return self._read[name]

    def _epsilon(self, losses: Losses, delta: Fraction) -> float:
        """Compose many losses: equal ones are one event, repeated."""
        asked = frozenset((kind, amount, number) for (kind, amount), number in losses.items()), delta
        if asked not in self._known:
            events = [event for loss, number in losses.items() for event in [_event(*loss)] * number]
            self._known[asked] = epsilon_at(events, float(delta), fixed_plan=True) if events else 0.0
        return self._known[asked]

    def _unit(
        self,
        unit: str,
        populations: list[str],
        relation: str,
        accounts: list[Account],
        delta: Fraction,
        complete: bool,
    ) -> UnitView:
        losses: Losses = Counter()
        sums: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        used = Fraction(0)
        for account in accounts:
            times, charges = _relation_factor(account, relation), self._charges(account.name)
            losses += _losses(account, charges, times)
            used += times * (account.reserved + account.spent)
            for alike in charges:
                loss = times * alike.amount
                rho = loss if account.definition == "zcdp" else loss**2 / 2
                for scope, name in (("years", alike.year), ("products", alike.product)):
                    sums[scope][name] += alike.number * loss
                    sums[f"{scope}_rho"][name] += alike.number * rho
        pure = all(account.definition == "pure" for account in accounts)
        rhos = (number * (cost if kind == "zcdp" else cost**2 / 2) for (kind, cost), number in losses.items())
        return UnitView(
            unit=unit,
            populations=populations,
            relation=relation,
            accounts=[account.name for account in accounts],
            plain=used if pure else None,
            rho=sum(rhos, Fraction(0)),
            epsilon=self._epsilon(losses, delta),
            delta=delta,
            whole=complete,
            **{scope: dict(sums[scope]) for scope in ("years", "products", "years_rho", "products_rho")},
        )


def _relation_factor(account: Account, relation: str) -> int:
    if account.relation == relation:
        return 1
    return 2 if account.definition == "pure" else 4


def _counted(steps: Iterable[Charge]) -> list[ChargeGroup]:
    """Count charges that were reserved, less those that were voided."""
    groups: Counter[tuple[int, int, str, str, str | None, str | None, int]] = Counter()
    for step in steps:
        alike = (  # a fraction itself takes long to be looked up
            *(step.amount.numerator, step.amount.denominator, step.reserved_at[:4], step.product),
            *(step.group, step.part, step.contributions or 1),
        )
        groups[alike] += -1 if step.state == "voided" else 1
    return [
        ChargeGroup(Fraction(top, under), year, product, group, part, bound, number)
        for (top, under, year, product, group, part, bound), number in groups.items()
        if number
    ]


def _costs(account: Account, charges: Sequence[ChargeGroup]) -> Counter[Fraction]:
    """Return how often each amount is lost, a group of parallel charges counting once, as it costs."""
    costs: Counter[Fraction] = Counter()
    groups: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    bounds: dict[str, int] = {}
    for alike in charges:
        if alike.group is None or alike.part is None:
            costs[alike.amount] += alike.number
        else:
            groups[alike.group][alike.part] += alike.number * alike.amount
            bounds[alike.group] = alike.contributions
    for group, parts in groups.items():
        costs[top_k_sum(parts.values(), affected_parts(bounds[group], account.relation))] += 1
    return costs


def _losses(account: Account, charges: Sequence[ChargeGroup], times: int = 1) -> Losses:
    """Return what an account's charges cost, ``times`` over, in a form that dp-accounting can compose."""
    costs = _costs(account, charges)
    if account.definition == "zcdp":
        total = times * sum((cost * number for cost, number in costs.items()), Fraction(0))
        return Counter({("zcdp", total): 1}) if total else Counter()
    if len(costs) > _MOST_KINDS:  # the rarest amounts together count as one release: a valid bound
        common = dict(costs.most_common(_MOST_KINDS))
        rest = sum((cost * number for cost, number in costs.items() if cost not in common), Fraction(0))
        costs = Counter(common) + Counter([rest])
    return Counter({("pure", times * cost): number for cost, number in costs.items()})


def composed(definition: str, amount: Fraction, number: int, delta: Fraction) -> float:
    """Return an ε such that so many releases of an amount each, settled beforehand, are (ε, δ)-private."""
    events = [_event(definition, amount)] * number
    if definition == "zcdp":
        events = [_event(definition, number * amount)]
    return epsilon_at(events, float(delta), fixed_plan=True)


class _Release(Event):
    """An event that stands for several equal ones: its cost is worked out once."""

    @cached_property
    def epsilon(self) -> Fraction | None:
        """The pure ε, or None where there is only a ρ."""
        return super().epsilon

    @cached_property
    def rho(self) -> Fraction:
        """The ρ."""
        return super().rho


def _event(definition: str, loss: Fraction) -> Event:
    """Return any ε-DP release, which a choice with that ε is, or one whose ρ only is used."""
    if definition == "pure":
        return _Release("exponential", loss, "pure", loss / 2, Fraction(1), (1,), "charge")
    return _Release("lattice_gaussian", loss, "zcdp", Fraction(1), 1 / (2 * loss), (1,), "charges")
