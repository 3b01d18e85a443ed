"""``tabularium ledger show``: what every account has spent and has left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tabularium.flows.cli.ledger.shared_options import (
    WIDE,
    Export,
    One,
    app,
    cells,
    open_books,
    print_each,
    print_rows,
    say,
)
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import bar, out, table
from tabularium.ledger import Account, Usage
from tabularium.ledger.records import SYMBOLS, Scope, Terms

if TYPE_CHECKING:
    from tabularium import Books


@app.command("show", epilog="Example:  tabularium ledger show census --last 0 --json")
def show(
    account: One = None,
    charges: Annotated[bool, typer.Option("--charges/--no-charges", help="List charges too.")] = True,
    last: Annotated[
        int, typer.Option(help="Number of charges of each account, those that moved last; 0 for all.")
    ] = 50,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show accounts: what is spent, reserved and left, by period and product, and the last charges of each.

    With --json: a list of accounts, amounts as exact fractions, with these fields:

    - account, unit, population, relation, definition, quantum, delta, cap_per_period, cap_per_product,
      opens_on, closes_on, needs_approval, approve_exact, approvals, approvals_by_product: the terms, or null
    - cap: the most that may ever be used
    - spent: what noise was drawn for; it never comes back
    - reserved: set aside for releases that are not drawn yet
    - used: both together; caps limit this
    - left: the cap less what is used
    - opened_at, retired: when it was opened, and whether it was retired, never having been charged
    - periods, products: by name: spent, reserved and used in each
    - charge_count: how many charges there ever were; absent with --no-charges, as charges is
    - charges: those that moved last (see --last), the last one at the end, each with the fields below
    - release_id, product, period, amount, state: what a charge is for
    - attempts: how often drawing began
    - revises, measurements_of: the reason of a revision, the release whose measurements it uses; else null
    - draft: of a charge that waits for review, or did: digest, criteria, whether it is accepted, how
      many officers must accept it, and who has (accepted_by); else null
    - withdrawn: of a release that was withdrawn: entry, at, key and reason; else null
    """
    with open_books(home, export) as books:
        most = (last or None) if charges else 0
        if as_json:
            print_each(books.as_dicts(account, last=most))
            return
        for warning in books.warnings:
            say(warning, style="yellow", whole=False)
        accounts = [books.account(account)] if account else books.accounts
        if not accounts:
            command = f"tabularium ledger open NAME --cap 1{books.key_option}"
            say(f"No account is open in {books.name} yet: {command}")
        for entry in accounts:
            _show_account(books, entry)
            if charges:
                _show_charges(books, entry, last or None)
                if words := books.forecast(entry.name).words:
                    say(f"  What is left is {words}.", whole=False)


def _show_account(books: Books, entry: Account) -> None:
    terms, symbol = entry.terms, SYMBOLS[entry.definition]
    what = f"{terms.protects}, {terms.relation}, {terms.definition} {symbol}"
    out.print(Text.assemble((entry.name, "bold"), f"  {what}"), soft_wrap=True)
    full = bar(entry.cap - entry.left, entry.cap)
    sums = f"spent {entry.spent} and reserved {entry.reserved} of {entry.cap}, left {entry.left}"
    say(f"  {full}  {sums}", whole=False)
    notes = [*(["retired: it takes no charges"] if entry.retired else []), *_days(entry)]
    if terms.approvals > 1:
        notes.append(f"every spec and every draft needs {terms.approvals} officers")
    elif terms.needs_approval:
        notes.append("every spec needs an officer's approval")
    elif terms.approve_exact:
        notes.append("a spec that states exact facts needs an officer's approval")
    notes += [
        f"specs and drafts of {name} need {number} officers" for name, number in terms.approvals_by_product
    ]
    if notes:
        say("  " + "; ".join(notes), whole=False)
    _show_scope("period", books.sums(entry.name, by="period"), terms, symbol)
    _show_scope("product", books.sums(entry.name, by="product"), terms, symbol)


def _days(entry: Account) -> Iterator[str]:
    """Say when the account takes charges, as seen from today (UTC, as the ledger judges it)."""
    today, terms = datetime.now(UTC).date().isoformat(), entry.terms
    if terms.opens_on is not None:
        yield f"{'opens on' if today < terms.opens_on else 'open since'} {terms.opens_on}"
    if terms.closes_on is not None:
        yield f"{'closes on' if today < terms.closes_on else 'closed since'} {terms.closes_on}"


def _show_scope(scope: Scope, found: dict[str, Usage], terms: Terms, symbol: str) -> None:
    if not found:
        return
    cap = terms.cap_in(scope)
    most = cap if cap is not None else max(sums.used for sums in found.values())
    rows = table(scope, "", f">spent {symbol}", ">reserved", ">left")
    for name, sums in sorted(found.items()):
        left = terms.left_in(scope, sums)
        shown = "" if left is None else left
        rows.add_row(*cells(name, bar(min(sums.used, most), most), sums.spent, sums.reserved, shown))
    out.print(rows)


def _show_charges(books: Books, entry: Account, last: int | None) -> None:
    about = ("product", "period") if out.width >= WIDE else ()  # else they stand below the release
    heading = table("release", *about, f">{SYMBOLS[entry.definition]}", "state", ">attempts")
    heading.columns[0].min_width = 32  # to be copied whole
    shown = 0

    def rows() -> Iterator[list[Text]]:
        nonlocal shown
        for found in books.charges(entry.name, last=last):
            shown += 1
            charge = found.charge
            names = (charge.product, charge.period)
            release = (charge.release_id, *names) if about else (f"{charge.release_id}\n{', '.join(names)}",)
            yield cells(*release, charge.amount, found.standing, charge.attempts)

    print_rows(rows(), heading)
    if last and shown == last and (more := books.charge_count(entry.name) - shown) > 0:
        noun = "charge moved" if more == 1 else "charges moved"
        say(f"  {more} more {noun} earlier; all: tabularium ledger show {entry.name} --last 0")


@app.command("history", epilog="Example:  tabularium ledger history census --last 20")
def history(
    account: One = None,
    last: Annotated[int, typer.Option(help="Number of entries, the newest; 0 for all.")] = 50,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the entries themselves, oldest first: what was decided, by whom, why, and what it changed.

    With --json: a list of entries as they are in the chain, among their fields:

    - by: the key that signed
    - account_reserved, account_spent: the account's sums after the entry
    """
    with open_books(home, export) as books:
        found = books.entries(account, last=last or None)
        if as_json:
            print_each(found)
            return
        heading = table(">entry", "time (UTC)", "what", "about")
        heading.columns[0].no_wrap = heading.columns[2].no_wrap = True
        if out.width < WIDE:  # the day, the time below it
            heading.columns[1].max_width = 10
        print_rows((_row(entry, books.explain(entry), named=account is None) for entry in found), heading)


def _row(entry: Mapping[str, Any], about: list[str], *, named: bool) -> list[Text]:
    if named and "account" in entry:
        about = [f"account {entry['account']}", *about]
    return cells(entry["seq"], entry["at"][:19].replace("T", " "), entry["kind"], "\n".join(about))
