"""Pages that only show: what waits for a person, the ledger's history, accounts, published releases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate
from typing import Any
from urllib.parse import urlencode

import tabularium
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.safety import Asked, Elsewhere, Page
from tabularium.flows.desk.signing import decide
from tabularium.ledger.records import SYMBOLS, Account, Scope, Usage
from tabularium.ledger.review import BOTH_FIGURES_HOLD, UnitView
from tabularium.mechanisms.errors import InputError

KINDS = {
    "approval": "Approve a spec",
    "review": "Review a draft",
    "attempts": "Allow more attempts",
    "refused": "A delivery was refused",
    "overdue": "Overdue",
}


def waiting(desk: Desk, _asked: Asked) -> Page:
    """List what waits, the oldest first, each with its age and the page on which it is decided."""
    with desk.asking_prefect(), desk.books() as books:
        waiting_rows = books.waiting()
        warnings = books.warnings
    now = datetime.now(UTC)
    rows = [
        {**row, "what": KINDS[row["kind"]], "age": age(now - row["since"]), "address": _address(row)}
        for row in waiting_rows.to_dict("records")
    ]
    return Page(
        "waiting.html.jinja",
        {"rows": rows, "warnings": warnings, "unknown": waiting_rows.unknown},
    )


def _address(waits: dict[Any, Any]) -> str | None:
    """Return where it is decided; None where nothing is decided."""
    if waits["kind"] == "review" and len(waits["signed"]) < waits["officers"]:
        return f"/drafts/{waits['release']}"
    if waits["kind"] == "attempts":
        return f"/attempts/{waits['release']}"
    if waits["kind"] == "approval" and waits["spec"]:
        asked = {
            name: waits[name] for name in ("spec", "period", "revises", "measurements_of") if waits[name]
        }
        return f"/approve?{urlencode(asked)}"
    return None


def age(passed: timedelta) -> str:
    """Return a time that has passed in the unit that people would use."""
    minutes = int(passed.total_seconds() // 60)
    for unit, size in (("day", 24 * 60), ("hour", 60), ("minute", 1)):
        if (number := minutes // size) > 0:
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "less than a minute"


_ON_A_PAGE = 50
#: What an entry says, where its name is not enough.
WORDS = {
    "account": "account opened",
    "terms": "terms changed",
    "retired": "account retired",
    "reserved": "budget reserved",
    "drawing": "noise is drawn",
    "measured": "measured: spent",
    "drafted": "draft laid out",
    "acceptance": "draft accepted",
    "withheld": "draft withheld",
    "withdrawn": "release withdrawn",
    "voided": "charge voided",
    "remade": "made from earlier measurements",
    "attempts": "more attempts allowed",
    "key": "officer's key enrolled",
    "release_key": "key for releases enrolled",
    "revocation": "key revoked",
    "approval": "spec approved",
    "unapproval": "approval taken back",
    "evidence": "evidence asked for",
}


def history(desk: Desk, asked: Asked) -> Page:
    """Show a page of entries, the newest first; of one account where it is named."""
    account, number = asked.value("account") or None, _number(asked.value("page"))
    with desk.books() as books:
        listing = list(books.entries(account, last=number * _ON_A_PAGE))
        entries = listing[: max(0, len(listing) - (number - 1) * _ON_A_PAGE)][::-1]
        shown: list[dict[str, Any]] = [
            {**entry, "what": WORDS.get(entry["kind"], entry["kind"]), "about": books.explain(entry)}
            for entry in entries
        ]
        accounts = [listed.name for listed in books.accounts]
    return Page(
        "history.html.jinja",
        {
            "entries": shown,
            "account": account,
            "accounts": accounts,
            "page": number,
            "older": len(listing) == number * _ON_A_PAGE,
        },
    )


def _number(text: str) -> int:
    if not text:
        return 1
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise InputError("is no number of a page", where="page", hint="go to the first one")
    return int(text)


# Accounts: what is spent, reserved and left, how that came about, and how far it goes.


WIDE, HIGH = 1000.0, 240.0
_MOST_POINTS, _MOST_CHARGES = 500, 50


def accounts(desk: Desk, _asked: Asked) -> Page:
    """Show all accounts, and what one entity has lost over those that protect it."""
    with desk.books() as books:
        rows = [_about(listed) | {"words": books.forecast(listed.name).words} for listed in books.accounts]
        warnings = books.warnings
    _views, units, apart = desk.review()
    return Page(
        "accounts.html.jinja",
        {
            "accounts": rows,
            "units": [_unit(unit) for unit in units],
            "apart": apart,
            "warnings": warnings,
            "holds": BOTH_FIGURES_HOLD,
        },
    )


def account(desk: Desk, asked: Asked) -> Page:
    """Show one account: its course, its products and periods, how far it goes, its last charges."""
    name = asked.path["account"]
    with desk.books() as books:
        chosen = books.account(name)
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
            **_about(chosen),
            "bar_shares": _shares(chosen),
            "picture": _picture(course),
            "course": course,
            "scopes": {by: _rows(chosen, by, usage) for by, usage in sums.items()},
            "charges": charges,
            "number": number,
            "words": words,
            "ahead": ahead,
        },
    )


def _about(account: Account) -> dict[str, Any]:
    return {"account": account, "symbol": SYMBOLS[account.definition], "bar": _shares(account)}


def _shares(account: Account) -> dict[str, float]:
    """Return the parts of the cap, each as a share of it."""
    parts = {"spent": account.spent, "reserved": account.reserved, "left": account.left}
    return {name: float(part / account.cap) for name, part in parts.items()}


def _rows(account: Account, by: Scope, sums: Mapping[str, Usage]) -> list[dict[str, Any]]:
    """Return what each product or period has used, and what its cap leaves."""
    cap = account.terms.cap_in(by)
    most = cap or max((usage.used for usage in sums.values()), default=Fraction(1)) or Fraction(1)
    return [
        {
            "name": name,
            "spent": usage.spent,
            "reserved": usage.reserved,
            "left": account.terms.left_in(by, usage),
            "share": min(float(usage.used / most), 1.0),
        }
        for name, usage in sorted(sums.items(), reverse=by == "period")
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


# Releases: what was published and whether it still stands; verified and withdrawn from here.


def products(desk: Desk, _asked: Asked) -> Page:
    """List the products, each with its newest release."""
    with desk.books() as books:
        releases = books.newest_releases(folders=desk.folders)
    return Page("products.html.jinja", {"releases": releases})


def product(desk: Desk, asked: Asked) -> Page:
    """List the releases of a product, the newest first."""
    name = asked.path["product"]
    with desk.books() as books:
        releases = books.releases(name, folders=desk.folders)
    if not releases:
        raise InputError("has no release", where=f"product {name}", hint="see the list of products")
    return Page("product.html.jinja", {"product": name, "releases": releases})


def release(desk: Desk, asked: Asked) -> Page:
    """Show a release, what its verification came to, and the form that withdraws it."""
    name = asked.path["release"]
    return Page(
        "release.html.jinja",
        {
            "release": _release(desk, name),
            "verification": desk.verification(name),
            "command": f"tabularium withdraw {name} --reason WHY --key FILE{desk.option}",
        },
    )


def verify(desk: Desk, asked: Asked) -> Elsewhere:
    """Begin to verify a release."""
    name = asked.path["release"]
    folder = _release(desk, name).folder
    if folder is None:
        raise InputError(
            "is not on this machine",
            where=f"release {name}",
            hint="copy its folder here, name it with --folder",
        )
    desk.begin_verification(name, lambda: tabularium.verify(folder))
    return Elsewhere(f"/releases/{name}")


def withdraw(desk: Desk, asked: Asked) -> Elsewhere | Page:
    """Withdraw a release, for the reason of the form."""
    name, reason = asked.path["release"], asked.value("reason")
    with desk.books() as books:
        charge = books.charged(name).charge
    about = f"{charge.product}, {charge.period}"
    return decide(
        *(desk, asked, lambda one: one.withdraw(name, reason=reason)),
        title=f"Withdraw {about}",
        says=[
            f"Release {name}",
            f"Every reader sees the reason: {reason}",
            "Its folder stays and can be verified; its budget stays spent. This is not taken back.",
        ],
        about=about,
        back=f"/releases/{name}",
        address=f"/releases/{name}/withdraw",
    )


def _release(desk: Desk, name: str) -> tabularium.Published:
    with desk.books() as books:
        of = books.charged(name).charge.product
        published = next(
            (
                candidate
                for candidate in books.releases(of, folders=desk.folders)
                if candidate.release == name
            ),
            None,
        )
    if published is None:
        raise InputError("is not published", where=f"release {name}", hint="see its account")
    return published
