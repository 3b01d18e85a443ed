"""``tabularium ledger show``: what every account has spent and has left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated

import typer
from rich.text import Text

from tabularium.flows.cli.ledger.shared_options import (
    SYMBOLS,
    WIDE,
    Books,
    app,
    cells,
    open_books,
    print_each,
    print_rows,
    say,
)
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import bar, out, table
from tabularium.ledger import Account, Charge, Ledger, Sums, Terms
from tabularium.ledger.chain.witness import ALONE
from tabularium.mechanisms.errors import InputError

One = Annotated[str | None, typer.Argument(help="One account; all if absent.")]


@app.command("show", epilog="Example:  tabularium ledger show census --last 0 --json")
def show(
    account: One = None,
    charges: Annotated[bool, typer.Option("--charges/--no-charges", help="List charges too.")] = True,
    last: Annotated[
        int, typer.Option(help="Only so many charges of each account, those that moved last; 0 for all.")
    ] = 50,
    export: Books = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show accounts: what is spent, reserved and left, by period and product, and the last charges of each.

    With --json a list of accounts, amounts as exact fractions, with these fields:

    - spent: what noise was drawn for; it never comes back
    - reserved: set aside for releases that are not drawn yet
    - used: both together; left: the cap less what is used
    - periods, products: spent, reserved and used in each
    - charge_count: how many charges there ever were
    - charges: those that moved last (see --last), the last one at the end
    - draft: of a charge that waits for review, or did: digest, criteria, and whether it is accepted
    - withdrawn: of a release that was withdrawn: entry, at, key and reason
    """
    with open_books(home, export) as ledger:
        if last < 0:
            raise InputError(
                "is below zero", where="--last", mend="say how many charges are wanted, or 0 for all"
            )
        accounts = [ledger.account(account)] if account else list(ledger.accounts())
        if as_json:
            print_each(_account_json(ledger, entry, last if charges else None) for entry in accounts)
            return
        if export is None and ledger.read_only is not None:
            say(f"This ledger is read-only: {ledger.read_only}", style="yellow")
        if export is None and not ledger.witnessed_elsewhere:
            say(f"There is {ALONE}.", style="yellow", whole=False)
        if not accounts:
            say(f"No account is open in {export or ledger.name} yet: tabularium ledger open NAME --cap 1")
        for entry in accounts:
            _show_account(ledger, entry)
            if charges:
                _show_charges(ledger, entry, last)


def sums_json(sums: Sums) -> dict[str, str]:
    """Return what is reserved and spent somewhere, for programs."""
    return {"reserved": str(sums.reserved), "spent": str(sums.spent), "used": str(sums.used)}


def whom(terms: Terms) -> str:
    """Say what an account protects: its entity, and its population if that has a name of its own."""
    return terms.unit if terms.population == terms.name else f"{terms.unit} of {terms.population}"


def _account_json(ledger: Ledger, entry: Account, last: int | None) -> dict[str, object]:
    shown: dict[str, object] = {
        **entry.terms.fields(),
        "cap": str(entry.cap),
        "retired": entry.retired,
        **sums_json(Sums(entry.reserved, entry.spent)),
        "left": str(entry.left),
        "opened_at": entry.opened_at,
        "periods": {name: sums_json(sums) for name, sums in ledger.periods(entry.name).items()},
        "products": {name: sums_json(sums) for name, sums in ledger.products(entry.name).items()},
    }
    if last is not None:
        shown["charge_count"] = ledger.charge_count(entry.name)
        shown["charges"] = [
            {
                "release_id": charge.release_id,
                "product": charge.product,
                "period": charge.period,
                "revises": charge.revises,
                "measurements_of": charge.measurements_of,
                "amount": str(charge.amount),
                "state": charge.state,
                "draft": _draft_json(ledger, charge),
                "withdrawn": _withdrawal_json(ledger, charge),
                "attempts": charge.attempts,
            }
            for charge in _charges(ledger, entry.name, last)
        ]
    return shown


def _draft_json(ledger: Ledger, charge: Charge) -> dict[str, object] | None:
    draft = ledger.draft(charge.release_id)
    if draft is None:
        return None
    return {"digest": draft.digest, "criteria": list(draft.criteria), "accepted": draft.accepted}


def _withdrawal_json(ledger: Ledger, charge: Charge) -> dict[str, object] | None:
    said = ledger.withdrawal(charge.release_id) if charge.state == "published" else None
    if said is None:
        return None
    return {"entry": said.entry, "at": said.at, "key": said.key, "reason": said.reason}


def _charges(ledger: Ledger, account: str, last: int) -> Iterator[Charge]:
    """Go through the last charges of an account, or all, the one that moved last at the end."""
    return iter(ledger.last_charges(account, last)) if last else ledger.each_charge(account)


def _show_account(ledger: Ledger, entry: Account) -> None:
    terms, symbol = entry.terms, SYMBOLS[entry.definition]
    what = f"{whom(terms)}, {terms.relation}, {terms.definition} {symbol}"
    out.print(Text.assemble((entry.name, "bold"), f"  {what}"), soft_wrap=True)
    full = bar(entry.cap - entry.left, entry.cap)
    sums = f"spent {entry.spent} and reserved {entry.reserved} of {entry.cap}, left {entry.left}"
    say(f"  {full}  {sums}", whole=False)
    notes = [*(["retired: it takes no charges"] if entry.retired else []), *_days(entry)]
    if terms.needs_approval:
        notes.append("every spec needs an officer's approval")
    elif terms.approve_exact:
        notes.append("a spec that states exact facts needs an officer's approval")
    if notes:
        say("  " + "; ".join(notes), whole=False)
    _show_scope("period", ledger.periods(entry.name), terms.cap_per_period, symbol)
    _show_scope("product", ledger.products(entry.name), terms.cap_per_product, symbol)


def _days(entry: Account) -> Iterator[str]:
    """Say when the account takes charges, as seen from today (UTC, as the ledger judges it)."""
    today, terms = datetime.now(UTC).date().isoformat(), entry.terms
    if terms.opens_on is not None:
        yield f"{'opens on' if today < terms.opens_on else 'open since'} {terms.opens_on}"
    if terms.closes_on is not None:
        yield f"{'closes on' if today < terms.closes_on else 'closed since'} {terms.closes_on}"


def _show_scope(scope: str, found: dict[str, Sums], cap: Fraction | None, symbol: str) -> None:
    if not found:
        return
    most = cap if cap is not None else max(sums.used for sums in found.values())
    rows = table(scope, "", f">spent {symbol}", ">reserved", ">left")
    for name, sums in sorted(found.items()):
        left = "" if cap is None else str(max(cap - sums.used, Fraction(0)))
        rows.add_row(*cells(name, bar(min(sums.used, most), most), sums.spent, sums.reserved, left))
    out.print(rows)


def _state(ledger: Ledger, charge: Charge) -> str:
    """Say in which state a charge is, of a draft what it waits for, and whether a release was withdrawn."""
    if charge.state == "published" and ledger.withdrawal(charge.release_id) is not None:
        return "withdrawn"
    draft = ledger.draft(charge.release_id) if charge.state == "measured" else None
    if draft is None:
        return charge.state
    return "draft, accepted" if draft.accepted else "draft, to review"


def _show_charges(ledger: Ledger, entry: Account, last: int) -> None:
    about = ("product", "period") if out.width >= WIDE else ()  # else they stand below the release
    heading = table("release", *about, f">{SYMBOLS[entry.definition]}", "state", ">attempts")
    heading.columns[0].min_width = 32  # to be copied whole
    shown = 0

    def rows() -> Iterator[list[Text]]:
        nonlocal shown
        for charge in _charges(ledger, entry.name, last):
            shown += 1
            names = (charge.product, charge.period)
            release = (charge.release_id, *names) if about else (f"{charge.release_id}\n{', '.join(names)}",)
            yield cells(*release, charge.amount, _state(ledger, charge), charge.attempts)

    print_rows(rows(), heading)
    if last and shown == last and (more := ledger.charge_count(entry.name) - shown) > 0:
        noun = "charge moved" if more == 1 else "charges moved"
        say(f"  {more} more {noun} earlier; all: tabularium ledger show {entry.name} --last 0")
