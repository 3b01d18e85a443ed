"""What a release cost, what its account has spent, and the bar that shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


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
    account
        None where the certificate does not state it.
    """

    symbol: str
    amount: Fraction
    epsilon_delta: list[tuple[float, str]]
    account: AccountShown | None


def budget_of(told: Mapping[str, Any]) -> BudgetShown:
    """Return the amounts that a certificate states."""
    privacy = told["privacy"]
    pure = privacy["definition"] == "pure"
    return BudgetShown(
        "ε" if pure else "ρ",
        Fraction(privacy["epsilon" if pure else "rho"]),
        [(each["epsilon"], each["delta"]) for each in privacy.get("epsilon_delta", [])],
        _account(told["account"], told["ledger"]["tally_charges"]) if "account" in told else None,
    )


def _account(said: Mapping[str, Any], tallies: Sequence[Mapping[str, Any]]) -> AccountShown:
    return AccountShown(
        said["name"],
        sum((Fraction(each["amount"]) for each in tallies), Fraction(said["reserved"]["amount"])),
        Fraction(said["cumulative"]["used"]),
        Fraction(said["cap"]),
        said["cumulative"]["releases_before"],
    )
