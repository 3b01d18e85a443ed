"""What a release cost, what its account has spent, and the bar that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tabularium.validations.certificate import Certificate


@dataclass(frozen=True)
class AccountShown:
    """How the account stood when it was charged for the release.

    Attributes
    ----------
    amount
        What the release cost: what was charged then, and before it for its tallies.
    used, cap
        The sum of all that was reserved or spent then, these charges included, and the most it may ever be.
    releases_before
        How many releases of the account came earlier.
    """

    name: str
    amount: Fraction
    used: Fraction
    cap: Fraction
    releases_before: int

    @property
    def left(self) -> Fraction:
        """What was left of the cap."""
        return self.cap - self.used

    @property
    def before(self) -> Fraction:
        """What was used before these charges."""
        return self.used - self.amount

    def part(self, amount: Fraction) -> float:
        """Return a part of the cap."""
        return float(amount / self.cap)


@dataclass(frozen=True)
class BudgetShown:
    """The price of a release for one protected unit.

    Attributes
    ----------
    symbol
        ε or ρ.
    epsilon_delta
        Under zcdp: the same loss as (ε, δ).
    """

    symbol: str
    amount: Fraction
    epsilon_delta: list[tuple[float, str]]
    account: AccountShown


def budget_of(told: Certificate) -> BudgetShown:
    """Return the amounts that a certificate states."""
    privacy, account = told.privacy, told.account
    return BudgetShown(
        "ε" if privacy.definition == "pure" else "ρ",
        privacy.loss,
        [(each.epsilon, str(each.delta)) for each in privacy.epsilon_delta or ()],
        AccountShown(
            account.name,
            sum((each.amount for each in told.ledger.tally_charges), account.reserved.amount),
            account.cumulative.used,
            account.cap,
            account.cumulative.releases_before,
        ),
    )
