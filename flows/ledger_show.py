"""``tabularium ledger show|history|review|plot``: what people and programs read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from flows.ledger_app import AsJson, HomePath, app, books_at, exact_or_none
from flows.terminal import bar, out, print_json, table
from ledger import Account, Entry, Ledger, Sums
from ledger.review import DELTA, account_view, unit_views
from mechanisms.errors import InputError

_SYMBOL = {"pure": "ε", "zcdp": "ρ"}
_HOLDS = (
    "Both figures hold where budgets were settled beforehand. Where a budget was chosen in view of earlier "
    "releases, a plain sum of ε still holds and the (ε, δ) does not; under zCDP only the cap does, as it was "
    "fixed beforehand."
)
One = Annotated[str | None, typer.Argument(help="One account; all if absent.")]


@app.command("show", epilog="Example:  tabularium ledger show --json")
def show(
    account: One = None,
    charges: Annotated[bool, typer.Option("--charges/--no-charges", help="List every charge too.")] = True,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show accounts: what is spent, reserved and left, by period and product, and the charges of each."""
    with books_at(home) as books:
        accounts = [books.account(account)] if account else list(books.accounts())
        if as_json:
            print_json([_account_json(books, entry, charges) for entry in accounts])
            return
        if books.read_only is not None:
            out.print(f"[yellow]This ledger is read-only:[/yellow] {escape(books.read_only)}", soft_wrap=True)
        if not accounts:
            out.print("No account is open yet: tabularium ledger open NAME --cap 1")
        for entry in accounts:
            _show_account(books, entry, charges)


@app.command("history", epilog="Example:  tabularium ledger history census --last 20")
def history(
    account: One = None,
    last: Annotated[int, typer.Option(help="Only so many entries, the newest; 0 for all.")] = 50,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the entries themselves, oldest first."""
    with books_at(home) as books:
        found = _entries(books, account, last)
        if as_json:
            print_json([entry.body for entry in found])
            return
        rows = table(">entry", "time (UTC)", "what", "account", "about", ">amount")
        for entry in found:
            body = entry.body
            rows.add_row(
                str(body["seq"]),
                body["at"][:19].replace("T", " "),
                body["kind"],
                escape(body.get("account", "")),
                escape(_about(body)),
                str(body.get("amount") or body.get("cap") or ""),
            )
        out.print(rows)


@app.command("review", epilog="Example:  tabularium ledger review --delta 1/1000000000")
def review(
    account: One = None,
    delta: Annotated[
        str | None, typer.Option(help="The δ of the (ε, δ); default the account's, or 1/1000000000.")
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the plain sum of what was spent beside the tightest (ε, δ), per account and per privacy unit."""
    with books_at(home) as books:
        at = exact_or_none(delta, "--delta")
        if at is not None and not 0 < at < 1:
            raise InputError("is not between 0 and 1", where="--delta", mend="write it like 1/1000000000")
        names = [account] if account else [entry.name for entry in books.accounts()]
        views = [account_view(books, name, at) for name in names]
        units = [] if account else unit_views(books, at or DELTA)
        if as_json:
            print_json({"accounts": [_view_json(view) for view in views], "units": [vars(u) for u in units]})
            return
        rows = table("account", "unit", "relation", ">charges", ">plain sum", ">cap", ">ε", ">at δ")
        for view in views:
            terms = view.account.terms
            plain = f"{_SYMBOL[terms.definition]} = {view.plain}"
            rows.add_row(
                *(terms.name, terms.unit, terms.relation, str(view.charges), plain, str(terms.cap)),
                *(f"{view.epsilon:.4g}", f"{float(view.delta):.1e}"),
            )
        out.print(rows)
        if units:
            rows = table("unit over accounts", "relation", "accounts", ">plain sum", ">ε", ">at δ")
            for unit in units:
                relation = unit.relation if unit.whole else f"{unit.relation} (in part)"
                plain = f"ε = {unit.plain}" if unit.plain is not None else f"ρ = {float(unit.rho):.4g}"
                rows.add_row(
                    *(unit.unit, relation, ", ".join(unit.accounts), plain),
                    *(f"{unit.epsilon:.4g}", f"{float(unit.delta):.1e}"),
                )
            out.print(rows)
        out.print(_HOLDS, soft_wrap=True)


@app.command("plot", epilog="Example:  tabularium ledger plot census spending.svg")
def plot(
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    file: Annotated[Path, typer.Argument(help="File to write: .svg, .png or .pdf.")],
    home: HomePath = None,
) -> None:
    """Plot what was reserved and spent over time, and the cap."""
    from flows.ledger_plot import FORMATS, plot_spending

    with books_at(home) as books:
        if file.suffix.lower() not in FORMATS:
            raise InputError(
                "is no kind of picture that is known here", where=str(file), mend="write .svg, .png or .pdf"
            )
        plot_spending(books, account, file)
        out.print(f"plot {file}", soft_wrap=True)


def _entries(books: Ledger, account: str | None, last: int) -> list[Entry]:
    if account is not None:
        books.account(account)  # or say that there is none
    after = max(0, books.head().seq - last) if last > 0 and account is None else 0
    found = [entry for entry in books.entries(after) if account in (None, entry.body.get("account"))]
    return found[-last:] if last > 0 else found


def _about(body: dict[str, Any]) -> str:
    if "release_id" in body:
        part = f", part {body['part']}" if "part" in body else ""
        return f"{body['release_id']} ({body['product']}, {body['period']}{part})"
    if "spec_digest" in body:
        return f"spec {body['spec_digest']} by {body['by']}"
    if "key" in body:
        return f"key {body['key']}" + (f" of {body['officer']}" if "officer" in body else "")
    return str(body.get("reason") or body.get("unit", ""))


def _account_json(books: Ledger, entry: Account, charges: bool) -> dict[str, object]:
    shown: dict[str, object] = {
        **entry.terms.fields(),
        "cap": str(entry.cap),
        "reserved": str(entry.reserved),
        "drawn": str(entry.spent),
        "spent": str(entry.cap - entry.left),
        "left": str(entry.left),
        "opened_at": entry.opened_at,
        "periods": {name: _sums_json(sums) for name, sums in books.periods(entry.name).items()},
        "products": {name: _sums_json(sums) for name, sums in books.products(entry.name).items()},
    }
    if charges:
        shown["charges"] = [
            {
                "release_id": charge.release_id,
                "product": charge.product,
                "period": charge.period,
                "amount": str(charge.amount),
                "state": charge.state,
                "attempts": charge.fence,
            }
            for charge in books.charges(entry.name)
        ]
    return shown


def _sums_json(sums: Sums) -> dict[str, str]:
    return {"reserved": str(sums.reserved), "spent": str(sums.spent)}


def _view_json(view: Any) -> dict[str, object]:
    terms = view.account.terms
    return {
        "account": terms.name,
        "unit": terms.unit,
        "relation": terms.relation,
        "definition": terms.definition,
        "plain": str(view.plain),
        "epsilon": view.epsilon,
        "delta": str(view.delta),
        "charges": view.charges,
        "periods": {name: _sums_json(sums) for name, sums in view.periods.items()},
        "products": {name: _sums_json(sums) for name, sums in view.products.items()},
    }


def _show_account(books: Ledger, entry: Account, charges: bool) -> None:
    terms, symbol = entry.terms, _SYMBOL[entry.definition]
    what = f"{escape(terms.unit)}, {terms.relation}, {terms.definition} {symbol}"
    full = bar(entry.cap - entry.left, entry.cap)
    sums = f"spent {entry.spent} and reserved {entry.reserved} of {entry.cap}, left {entry.left}"
    out.print(f"[bold]{escape(entry.name)}[/bold]  {what}   {full}  {sums}", soft_wrap=True)
    notes = [
        *([f"opens on {terms.opens_on}"] if terms.opens_on else []),
        *([f"closes on {terms.closes_on}"] if terms.closes_on else []),
        *(["every spec needs an officer's approval"] if terms.needs_approval else []),
    ]
    if notes:
        out.print("  " + "; ".join(notes))
    _show_scope("period", books.periods(entry.name), terms.cap_per_period, symbol)
    _show_scope("product", books.products(entry.name), terms.cap_per_product, symbol)
    if charges:
        _show_charges(books, entry.name, symbol)


def _show_scope(scope: str, found: dict[str, Sums], cap: Fraction | None, symbol: str) -> None:
    if not found:
        return
    most = cap if cap is not None else max(sums.used for sums in found.values())
    rows = table(scope, "", f">spent {symbol}", ">reserved", ">left")
    for name, sums in sorted(found.items()):
        left = "" if cap is None else str(max(cap - sums.used, Fraction(0)))
        rows.add_row(escape(name), bar(min(sums.used, most), most), str(sums.spent), str(sums.reserved), left)
    out.print(rows)


def _show_charges(books: Ledger, name: str, symbol: str) -> None:
    rows = table("release", "product", "period", f">{symbol}", "state", ">attempts")
    rows.columns[0].no_wrap, rows.columns[0].min_width = True, 32  # to be copied whole
    for charge in books.charges(name):
        rows.add_row(
            charge.release_id,
            escape(charge.product),
            escape(charge.period),
            str(charge.amount),
            charge.state,
            str(charge.fence),
        )
    if rows.row_count:
        out.print(rows)
