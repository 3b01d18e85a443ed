"""What an officer decides who approves a spec: what will be published, at what price, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tabularium.tasks.plan.targets import in_figures

if TYPE_CHECKING:
    from tabularium._release import Release
    from tabularium._spec import Spec
    from tabularium.ledger import Account
    from tabularium.tasks.forecast.forecast import Expected
    from tabularium.validations.spec.load import Loaded

_TABLES = 12


class Decision:
    """A spec as it is approved. Made by :meth:`Books.decision`.

    Attributes
    ----------
    product, period, account
        What is published, for when, and what pays.
    spec_digest
        What the approval is of.
    budget
        That the spec states.
    cost
        The same; 0 where it is paid for already, or made from measurements that are.
    left, left_after
        Of the account, before and after.
    room
        What the account pays at most for this product and period: caps of either may leave less.
    closed
        Whether the account takes no charges any more.
    earlier
        The last release of the product that lies here, with whose spec this one is compared; or None.
    officers
        How many different officers must approve it.
    approved_by
        The officers whose approvals stand for its budget.
    paid
        Whether it was charged before.
    """

    def __init__(
        self,
        loaded: Loaded,
        account: Account,
        room: Fraction,
        earlier: Release | None = None,
        *,
        paid: bool,
        closed: bool,
        signed: tuple[str, ...] = (),
    ) -> None:
        spec = loaded.spec
        self._loaded, self._account = loaded, account
        self.product, self.period, self.account = spec.product, spec.period, account.name
        self.spec_digest = loaded.digest
        self.budget: Fraction = spec.privacy.budget
        self.cost = Fraction(0) if paid or spec.measurements_of is not None else self.budget
        self.paid, self.closed = paid, closed
        self.left, self.room = account.left, room
        self.left_after: Fraction = account.left - self.cost
        self.cap: Fraction = account.cap
        self.earlier = earlier
        self.officers, self.approved_by = account.terms.approvals_for(spec.product), signed

    @property
    def spec(self) -> Spec:
        """The spec, as it was read."""
        from tabularium._spec import Spec

        return Spec(self._loaded, self.period)

    @property
    def symbol(self) -> str:
        """What amounts are called: ε or ρ."""
        return self._loaded.spec.privacy.symbol

    @cached_property
    def expected(self) -> tuple[Expected, ...]:
        """Every number that will be published, with its margin as far as it is known before."""
        from tabularium.tasks.forecast.forecast import forecast

        return tuple(forecast(self._loaded))

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        """What differs from the spec of :attr:`earlier`: field, what it was, what it is."""
        from tabularium._diff import differing

        if self.earlier is None:
            return []
        return [
            each
            for each in differing(self.earlier.certificate.spec, self._loaded.published_spec)
            if each[0] != "period"
        ]

    @property
    def can_be_paid(self) -> bool:
        """Whether the account takes the charge, as far as its caps and days say."""
        return not self.cost or (self.cost <= self.room and not self.closed)

    @property
    def outside_the_guarantee(self) -> tuple[str, ...]:
        """What the release tells everybody for certain, whatever the budget."""
        from tabularium.validations.spec.exact_facts import exact_facts

        return tuple(fact.what for fact in exact_facts(self._loaded.spec))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, amounts as exact fractions."""
        return {
            "product": self.product,
            "period": self.period,
            "account": self.account,
            "spec_digest": self.spec_digest,
            "cost": str(self.cost),
            "left": str(self.left),
            "left_after": str(self.left_after),
            "can_be_paid": self.can_be_paid,
            "officers": self.officers,
            "approved_by": list(self.approved_by),
            "tables": [line.strip() for line in self._tables()],
            "outside_the_guarantee": list(self.outside_the_guarantee),
        }

    @property
    def headline(self) -> str:
        """What is published and what it costs, in a line; of a revision what it is for."""
        spec = self._loaded.spec
        privacy, symbol = spec.privacy, spec.privacy.symbol
        price = f"{symbol} = {self.cost} of account {self.account}, for one {privacy.protects}"
        if spec.measurements_of is not None:
            price = f"made from the measurements of release {spec.measurements_of}, and costs nothing"
        elif self.paid:
            price = "paid for already, and costs nothing more"
        revised = "" if spec.revises is None else f", revised ({spec.revises})"
        return f"{self.product} {self.period}{revised}: {price}"

    def __repr__(self) -> str:
        symbol, facts = self._loaded.spec.privacy.symbol, self.outside_the_guarantee
        after = f"{self.left_after} after it"
        if self.closed and self.cost:
            after = "and the account takes no charges any more"
        elif not self.can_be_paid:
            after = f"{self.room} of it for this product and period, which does not pay for it"
        several = f"  {len(self.approved_by)} of {self.officers} officers have approved it"
        if self.approved_by:
            several += f": {', '.join(self.approved_by)}"
        return "\n".join(
            [
                self.headline,
                f"  {symbol} = {self.left} of {self._account.cap} is left, {after}",
                *([several] if self.officers > 1 else []),
                *self._tables(),
                *(["outside the guarantee, known for certain to everybody:"] if facts else []),
                *(f"  {fact}" for fact in facts),
            ]
        )

    def _tables(self) -> Iterator[str]:
        expected: dict[str, list[Expected]] = {}
        for each in self.expected:
            expected.setdefault(each.table, []).append(each)
        tables = self._loaded.spec.tables
        for table in tables[:_TABLES]:
            counted = f" where {table.where}" if table.where else ""
            worth = ", ".join(_worth(expected[table.name]))
            yield f"  {table.name}: {' × '.join(table.dimensions)}{counted}; {worth}"
        if len(tables) > _TABLES:
            yield f"  and {len(tables) - _TABLES} more tables"
        for sizes in self._loaded.spec.histograms:
            yield f"  {sizes.name}: how many {sizes.of} have each size"


def _worth(expected: Sequence[Expected]) -> Iterator[str]:
    """Yield every number of a table with the margin of its coarsest level, as far as it is known."""
    seen = set()
    for each in expected:
        if each.name in seen:
            continue
        seen.add(each.name)
        margin = each.in_cells[0].margin if each.in_cells is not None else each.of_noise
        at = f" at {each.level}" if each.level else ""
        yield each.name if margin is None else f"{each.name} ± {in_figures(margin)}{at}"
