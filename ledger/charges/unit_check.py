"""Whether a charge speaks of the same privacy as its account, and if not, what would make it fit.

- An ε-DP release is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4); no ρ is any pure ε.
- What protects against adding or removing a unit at ε protects against replacing one at 2ε (one removed, one
  added; 4ρ under zCDP). Nothing follows the other way: under ``replace`` the number of units is public.
- No amount for one population is one for another.
- What protects one record at ε protects a unit of at most c records at cε (c²ρ); the ledger does not know c.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Literal

from tabularium.ledger import amounts
from tabularium.ledger.records import Terms
from tabularium.ledger.refusals import Unfit
from tabularium.mechanisms.accounting import PrivacyLoss

_SYMBOL = {"pure": "ε", "zcdp": "ρ"}


def require_same_units(
    terms: Terms,
    amount: Fraction,
    unit: str | None,
    relation: str | None,
    definition: str | None,
    population: str | None = None,
) -> None:
    """Refuse a charge whose unit, relation … (``None``: the account's) is not the account's.

    Raises
    ------
    Unfit
        Naming what differs, and the conversion that would make the charge fit.
    """
    asked = {"unit": unit, "relation": relation, "definition": definition, "population": population}
    there = {name: getattr(terms, name) for name in asked}
    differing = [name for name, value in asked.items() if value is not None and value != there[name]]
    if not differing:
        return
    what = ", ".join(
        f"the charge's {name} is {asked[name]}, the account's {there[name]}" for name in differing
    )
    raise Unfit(what, where=f"account {terms.name}", hint=_conversion(terms, amount, asked, differing))


def _conversion(terms: Terms, amount: Fraction, asked: dict[str, str | None], differing: list[str]) -> str:
    if "population" in differing:
        return "what one population loses is no charge for another: charge an account of that population"
    if "definition" in differing and terms.definition == "pure":
        return "no ρ implies a pure ε: charge an account with definition zcdp, or release under pure ε"
    if "relation" in differing and terms.relation == "add-remove":
        return (
            "protection under replace implies none under add-remove: charge an account with relation replace,"
            " or release under add-remove"
        )
    own: Literal["pure", "zcdp"] = "zcdp" if (asked["definition"] or terms.definition) == "zcdp" else "pure"
    loss = PrivacyLoss(amount, own)
    if "relation" in differing:
        loss = loss.for_unit(2)
    if "definition" in differing:
        loss = loss.as_zcdp()
    rounded = ceil(loss.amount / terms.quantum) * terms.quantum
    charge = f"{_SYMBOL[terms.definition]} = {amounts.short(rounded)}"
    if "unit" in differing:
        times = "c²" if terms.definition == "zcdp" else "c"
        return (
            f"charge {times} times {charge}, where one {terms.unit} has at most c of the unit {asked['unit']}"
            f", or open an account with unit {asked['unit']}"
        )
    return f"charge {charge}, which is what it implies here"
