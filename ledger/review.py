"""The reviewer's view: what was spent on whom, plainly summed and as tightly as the theory allows.

Where every amount was settled beforehand, the plain sum bounds the loss, and so does the second figure, an ε
at a small δ that composes the charges as dp-accounting does (privacy loss distributions for ε-DP releases,
Canonne, Kamath and Steinke 2020 for ρ-zCDP). Where amounts were chosen in view of earlier releases, the
definition matters. Under pure ε the plain sum still holds: the loss of what was seen never exceeds the sum of
the ε's that were seen to be spent (Rogers, Roth, Ullman and Vadhan 2016). Under zCDP it does not: a cap that
was fixed beforehand is a filter, and the bound is that cap (Feldman and Zrnic 2021), not what happens to have
been spent under it. A cap that was raised in view of releases was not fixed beforehand.

Charges over parts of one partition count there as one release at the cost of their dearest parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from ledger.books import Ledger
from ledger.composition import folds, together
from ledger.records import Account, Charge, Sums
from mechanisms.accounting import Event, epsilon_at

#: At which δ an account of pure ε is reported, unless another is asked for.
DELTA = Fraction(1, 10**9)
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
    periods, products
        What is reserved and spent in each.
    """

    account: Account
    plain: Fraction
    epsilon: float
    delta: Fraction
    charges: int
    periods: dict[str, Sums]
    products: dict[str, Sums]


@dataclass(frozen=True)
class UnitView:
    """What one privacy unit has lost over accounts that speak of it, products and years together.

    Attributes
    ----------
    relation
        What the figures are about. Under ``"replace"`` all accounts of the unit count, an ``"add-remove"``
        one at twice its ε or four times its ρ, because to replace a unit is to remove one and add one. Under
        ``"add-remove"`` only the accounts of that relation can count: nothing follows from the others.
    plain
        The sum of the ε's, or ``None`` if an account is under zCDP, which has none.
    rho
        The sum of the ρ's, an ε-DP charge counting as ε²/2.
    whole
        Whether every account of the unit is counted.
    """

    unit: str
    relation: str
    accounts: list[str]
    plain: Fraction | None
    rho: Fraction
    epsilon: float
    delta: Fraction
    whole: bool = True
    years: dict[str, Fraction] = field(default_factory=dict)
    products: dict[str, Fraction] = field(default_factory=dict)


def account_view(books: Ledger, name: str, delta: Fraction | None = None) -> AccountView:
    """Return the view of one account; ``delta`` is by default the account's, or :data:`DELTA`."""
    account = books.account(name)
    at = delta or account.terms.delta or DELTA
    charges = _counting(books.charges(name))
    return AccountView(
        account=account,
        plain=account.reserved + account.spent,
        epsilon=epsilon_at(_events(account, charges), float(at), fixed_plan=True) if charges else 0.0,
        delta=at,
        charges=len(charges),
        periods=books.periods(name),
        products=books.products(name),
    )


def unit_views(books: Ledger, delta: Fraction = DELTA) -> list[UnitView]:
    """Return what each privacy unit has lost in its accounts together, one view per relation it has there.

    A unit may be in every data set, so accounts compose in sequence. Units are the same where their names
    are. A unit with accounts of both relations has a view of the add-remove ones alone, and one of all its
    accounts under ``"replace"``: that is its total. The years and products are plain sums of the amounts,
    ε or ρ as their accounts have them, under the view's relation.
    """
    units: dict[str, list[Account]] = defaultdict(list)
    for account in books.accounts():
        units[account.unit].append(account)
    views = []
    for unit, accounts in units.items():
        alone = [account for account in accounts if account.relation == "add-remove"]
        if alone:
            views.append(_unit_view(books, unit, "add-remove", alone, delta, len(alone) == len(accounts)))
        if len(alone) < len(accounts):
            views.append(_unit_view(books, unit, "replace", accounts, delta, True))
    return views


def _unit_view(
    books: Ledger, unit: str, relation: str, accounts: list[Account], delta: Fraction, whole: bool
) -> UnitView:
    events: list[Event] = []
    years: dict[str, Fraction] = defaultdict(Fraction)
    products: dict[str, Fraction] = defaultdict(Fraction)
    used = Fraction(0)
    for account in accounts:
        times = _times(account, relation)
        charges = _counting(books.charges(account.name))
        events += _events(account, charges, times)
        used += times * (account.reserved + account.spent)
        for charge in charges:
            years[charge.reserved_at[:4]] += times * charge.amount
            products[charge.product] += times * charge.amount
    pure = all(account.definition == "pure" for account in accounts)
    return UnitView(
        unit=unit,
        relation=relation,
        accounts=[account.name for account in accounts],
        plain=used if pure else None,
        rho=sum((event.rho for event in events), Fraction(0)),
        epsilon=epsilon_at(events, float(delta), fixed_plan=True) if events else 0.0,
        delta=delta,
        whole=whole,
        years=dict(years),
        products=dict(products),
    )


def _counting(charges: Iterable[Charge]) -> list[Charge]:
    return [charge for charge in charges if charge.state != "voided"]


def _times(account: Account, relation: str) -> int:
    """Return what one unit of an account's amounts is worth under ``relation``: two steps away at most."""
    if account.relation == relation:
        return 1
    return 2 if account.definition == "pure" else 4


def _events(account: Account, charges: list[Charge], times: int = 1) -> list[Event]:
    """Return an account's charges, at ``times`` their cost, as events that dp-accounting can compose."""
    alone = [charge.amount for charge in charges if charge.group is None]
    costs = [times * cost for cost in alone + _groups(account, charges)]
    if account.definition == "zcdp":
        total = sum(costs, Fraction(0))
        return [_of_rho(total)] if total else []
    counted = Counter(costs)
    if len(counted) > _MOST_KINDS:  # the rarest amounts together count as one release: a valid bound
        common = [amount for amount, _times in counted.most_common(_MOST_KINDS)]
        rest = sum((amount * times for amount, times in counted.items() if amount not in common), Fraction(0))
        counted = Counter({amount: counted[amount] for amount in common}) + Counter([rest])
    return [_of_epsilon(amount) for amount in counted.elements()]


def _groups(account: Account, charges: list[Charge]) -> list[Fraction]:
    """Return what each group of parallel charges costs."""
    parts: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    bounds: dict[str, int] = {}
    for charge in charges:
        if charge.group is not None and charge.part is not None:
            parts[charge.group][charge.part] += charge.amount
            bounds[charge.group] = charge.contributions or 1
    return [
        together(found.values(), folds(bounds[group], account.relation)) for group, found in parts.items()
    ]


def _of_epsilon(epsilon: Fraction) -> Event:
    """Return an event that is any ε-DP release: a choice with that ε."""
    return Event("exponential", epsilon, "pure", epsilon / 2, Fraction(1), (1,), "charge")


def _of_rho(rho: Fraction) -> Event:
    """Return an event of which nothing but its ρ is used."""
    return Event("lattice_gaussian", rho, "zcdp", Fraction(1), 1 / (2 * rho), (1,), "charges")
