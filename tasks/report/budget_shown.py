"""What a release cost, what its account has spent, and the bar that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class BudgetShown:
    """Amounts of one release and its account.

    Attributes
    ----------
    symbol
        ε or ρ.
    amount
        What this release cost one protected unit.
    used, cap
        The sum of all that the account had reserved or spent then, this release included, and the most it may
        ever be.
    releases_before
        How many releases of the account came earlier.
    epsilon_delta
        Under zcdp: the same loss as (ε, δ).
    """

    symbol: str
    entity: str
    population: str
    account: str
    amount: Fraction
    used: Fraction
    cap: Fraction
    releases_before: int
    epsilon_delta: list[tuple[float, str]]

    @property
    def left(self) -> Fraction:
        """What was left of the cap."""
        return self.cap - self.used

    @property
    def before(self) -> Fraction:
        """What was used before this release."""
        return self.used - self.amount

    def part(self, amount: Fraction) -> float:
        """Return a part of the cap."""
        return float(amount / self.cap)


def budget_of(told: Mapping[str, Any]) -> BudgetShown:
    """Return the amounts that a certificate states."""
    privacy, account = told["privacy"], told["account"]
    pure = privacy["definition"] == "pure"
    return BudgetShown(
        "ε" if pure else "ρ",
        privacy["unit"]["entity"],
        privacy["unit"]["population"],
        account["name"],
        Fraction(privacy["epsilon" if pure else "rho"]),
        Fraction(account["cumulative"]["used"]),
        Fraction(account["cap"]),
        account["cumulative"]["releases_before"],
        [(each["epsilon"], each["delta"]) for each in privacy.get("epsilon_delta", [])],
    )
