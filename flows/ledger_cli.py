"""``tabularium ledger …``: what an officer does with the books."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from flows.terminal import bar, one_line_errors, out, print_json, table
from ledger import Ledger
from ledger.holding import hold
from mechanisms.errors import InputError
from tasks.home import Home

app = typer.Typer(help="Open accounts, see what is spent and left, check the chain.", no_args_is_help=True)

HomePath = Annotated[
    Path | None,
    typer.Option("--home", help="Home of the installation; default TABULARIUM_HOME or ~/.tabularium."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def books_at(home: Path | None) -> Iterator[Ledger]:
    """Open the ledger of a home for one command, errors in one line."""
    with one_line_errors(), Ledger.connect(Home.at(home).ledger_url) as books:
        yield books


def exact(text: str, where: str) -> Fraction:
    """Read an exact amount from the command line.

    Raises
    ------
    InputError
        If the text is not a whole number, a decimal or a fraction.
    """
    if re.fullmatch(r"\d{1,40}(\.\d{1,40})?|\d{1,40}/0*[1-9]\d{0,40}", text) is None:
        raise InputError("this is not an exact amount", where=where, mend="write 1, 0.1 or 1/3")
    return Fraction(text)


@app.command(
    "open", epilog="Example:  tabularium ledger open census --cap 10 --unit record --relation add-remove"
)
def open_account(
    account: Annotated[str, typer.Argument(help="Name of the account: the spec's dataset.")],
    cap: Annotated[str, typer.Option(help="All that may ever be spent: an exact ε such as 10, 0.5 or 1/3.")],
    unit: Annotated[str, typer.Option(help="Privacy unit that the account protects.")] = "record",
    relation: Annotated[
        str, typer.Option(help="Neighbouring relation: add-remove or replace.")
    ] = "add-remove",
    quantum: Annotated[
        str | None,
        typer.Option(help="Every amount is a multiple of this, 1/q with q up to 10^12; seldom needed."),
    ] = None,
    home: HomePath = None,
) -> None:
    """Open an account with a cap."""
    with books_at(home) as books:
        if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", account) is None:
            raise InputError(
                "no spec could name this account as its dataset",
                where="ACCOUNT",
                mend="use small letters, digits and hyphens, at most 63",
            )
        amount = exact(cap, "--cap")
        step = {} if quantum is None else {"quantum": exact(quantum, "--quantum")}
        books.open_account(account, unit=unit, relation=relation, definition="pure", cap=amount, **step)
        out.print(f"Account {account} is open with a cap of ε = {amount}.")


@app.command("show", epilog="Example:  tabularium ledger show --json")
def show(
    account: Annotated[str | None, typer.Argument(help="One account; all if absent.")] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show accounts, what is spent and left, and the charges of each."""
    with books_at(home) as books:
        accounts = [books.account(account)] if account else list(books.accounts())
        if as_json:
            print_json([_account_json(books, entry.name) for entry in accounts])
            return
        if not accounts:
            out.print("No account is open yet: tabularium ledger open NAME --cap 1")
        for entry in accounts:
            _show_account(books, entry.name)


@app.command("verify", epilog="Example:  tabularium ledger verify")
def verify(home: HomePath = None) -> None:
    """Walk the whole chain and recompute every balance and state."""
    with books_at(home) as books:
        books.verify()
        head = books.head()
        out.print(f"The chain of {head.seq} entries is whole; its head is {head.hash}.", soft_wrap=True)


@app.command("void", epilog='Example:  tabularium ledger void 3fa9… --reason "wrong period"')
def void(
    release: Annotated[str, typer.Argument(help="Release id.")],
    reason: Annotated[str, typer.Option(help="Why; kept in the ledger.")],
    home: HomePath = None,
) -> None:
    """Give back the budget of a release whose noise was never begun."""
    with books_at(home) as books, hold(books, release):
        books.void(release, reason)
        out.print(f"Release {release} is voided; its budget is free again.")


@app.command("abandon", epilog='Example:  tabularium ledger abandon 3fa9… --reason "measurement lost"')
def abandon(
    release: Annotated[str, typer.Argument(help="Release id.")],
    reason: Annotated[str, typer.Option(help="Why; kept in the ledger.")],
    home: HomePath = None,
) -> None:
    """Give up a release whose noise was begun; its budget stays spent for ever."""
    with books_at(home) as books, hold(books, release):
        books.abandon(release, reason)
        out.print(f"Release {release} is abandoned; its budget stays spent.")


def _account_json(books: Ledger, name: str) -> dict[str, object]:
    entry = books.account(name)
    left = books.balance(name)
    return {
        "account": name,
        "unit": entry.terms.unit,
        "relation": entry.terms.relation,
        "definition": entry.terms.definition,
        "cap": str(entry.cap),
        "spent": str(entry.cap - left),
        "left": str(left),
        "charges": [
            {
                "release_id": charge.release_id,
                "product": charge.product,
                "period": charge.period,
                "amount": str(charge.amount),
                "state": charge.state,
                "attempts": charge.fence,
            }
            for charge in books.charges(name)
        ],
    }


def _show_account(books: Ledger, name: str) -> None:
    entry = books.account(name)
    left = books.balance(name)
    spent = entry.cap - left
    out.print(
        f"[bold]{name}[/bold]  {entry.terms.unit}, {entry.terms.relation}, {entry.terms.definition} ε   "
        f"{bar(spent, entry.cap)}  spent {spent} of {entry.cap}, left {left}"
    )
    rows = table("release", "product", "period", ">ε", "state", ">attempts")
    rows.columns[0].no_wrap, rows.columns[0].min_width = True, 32  # to be copied whole
    for charge in books.charges(name):
        rows.add_row(
            charge.release_id,
            charge.product,
            charge.period,
            str(charge.amount),
            charge.state,
            str(charge.fence),
        )
    if rows.row_count:
        out.print(rows)
