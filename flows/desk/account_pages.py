"""Accounts: what is spent, reserved and left, how that came about, and how far it goes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any

import tabularium
from tabularium.flows.desk.asked import Asked, Page
from tabularium.flows.desk.desk import Desk
from tabularium.ledger.records import SYMBOLS, Account, Scope, Usage
from tabularium.ledger.review import BOTH_FIGURES_HOLD, UnitView

WIDE, HIGH = 1000.0, 240.0
_MOST_POINTS, _MOST_CHARGES = 500, 50


def accounts(desk: Desk, _asked: Asked) -> Page:
    """Show all accounts, and what one entity has lost over those that protect it."""
    with desk.books() as books:
        found = [_about(each) | {"words": books.forecast(each.name).words} for each in books.accounts]
        warnings = books.warnings
    _views, units, apart = desk.review()
    return Page(
        "accounts.html.jinja",
        {
            "accounts": found,
            "units": [_unit(each) for each in units],
            "apart": apart,
            "warnings": warnings,
            "holds": BOTH_FIGURES_HOLD,
        },
    )


def account(desk: Desk, asked: Asked) -> Page:
    """Show one account: its course, its products and periods, how far it goes, its last charges."""
    name = asked.path["account"]
    with desk.books() as books:
        found = books.account(name)
        course = books.course(name, most=_MOST_POINTS)
        scopes: tuple[Scope, ...] = ("product", "period")
        sums = {by: books.sums(name, by=by) for by in scopes}
        charges = list(books.charges(name, last=_MOST_CHARGES))[::-1]
        words, number = books.forecast(name).words, books.charge_count(name)
        with desk.asking_prefect():
            ahead = books.ahead(name)
    return Page(
        "account.html.jinja",
        {
            **_about(found),
            "bar_shares": _shares(found),
            "picture": _picture(course),
            "course": course,
            "scopes": {by: _rows(found, by, each) for by, each in sums.items()},
            "charges": charges,
            "number": number,
            "words": words,
            "ahead": ahead,
        },
    )


def _about(found: Account) -> dict[str, Any]:
    return {"account": found, "symbol": SYMBOLS[found.definition], "bar": _shares(found)}


def _shares(found: Account) -> dict[str, float]:
    """Return the parts of the cap, each as a share of it."""
    parts = {"spent": found.spent, "reserved": found.reserved, "left": found.left}
    return {name: float(part / found.cap) for name, part in parts.items()}


def _rows(found: Account, by: Scope, sums: Mapping[str, Usage]) -> list[dict[str, Any]]:
    """Return what each product or period has used, and what its cap leaves."""
    cap = found.terms.cap_in(by)
    most = cap or max((each.used for each in sums.values()), default=Fraction(1)) or Fraction(1)
    return [
        {
            "name": name,
            "spent": each.spent,
            "reserved": each.reserved,
            "left": found.terms.left_in(by, each),
            "share": min(float(each.used / most), 1.0),
        }
        for name, each in sorted(sums.items(), reverse=by == "period")
    ]


def _picture(course: list[tabularium.Point]) -> dict[str, str]:
    """Return the cap as a line and what is used and spent as areas, in an SVG of ``WIDE`` by ``HIGH``."""
    first, span = course[0].at, (course[-1].at - course[0].at).total_seconds() or 1.0
    most = max(max(point.cap, point.used) for point in course) or Fraction(1)

    def line(what: str) -> str:
        steps, before = [], ""
        for point in course:
            at = WIDE * (point.at - first).total_seconds() / span
            height = f"{HIGH * (1 - float(getattr(point, what) / most)):.1f}"
            steps.append(f"H{at:.1f}V{height}" if before else f"M{at:.1f} {height}")
            before = height
        return "".join(steps)

    area = f"V{HIGH}H0Z"
    return {"cap": line("cap"), "used": line("used") + area, "spent": line("spent") + area}


def _unit(unit: UnitView) -> dict[str, Any]:
    """Return what one entity has lost: in all, and by year."""
    years = unit.by_year
    return {
        "unit": unit,
        "sum": unit.written(unit.rho if unit.plain is None else unit.plain),
        "years": [
            (year, unit.written(loss), unit.written(so_far))
            for (year, loss), so_far in zip(years.items(), accumulate(years.values()), strict=True)
        ],
    }
