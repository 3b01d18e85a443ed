"""Spending of accounts, and what is left: ``tabularium ledger show|history|review|plot``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from tabularium import Books
from tabularium.flows.cli.ledger.shared_options import (
    WIDE,
    Export,
    One,
    app,
    cells,
    exact_or_none,
    open_books,
    print_json_list,
    print_rows,
)
from tabularium.flows.cli.terminal import AsJson, HomePath, bar, out, print_json, say, table
from tabularium.ledger import Account, Usage
from tabularium.ledger.records import SYMBOLS, Scope, Terms
from tabularium.ledger.review import BOTH_FIGURES_HOLD, AccountView, UnitView
from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors


@app.command("show", epilog="Example:  tabularium ledger show census --json")
def show(
    account: One = None,
    charges: Annotated[bool, typer.Option("--charges/--no-charges", help="List charges too.")] = True,
    last: Annotated[int, typer.Option(help="Charges of each account that moved last; 0 for all.")] = 50,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show accounts: what is spent, reserved and left, by period and product, and the last charges.

    With --json: a list of accounts with these fields:

    - account, unit, population, relation, definition, quantum, delta, cap, cap_per_period, cap_per_product,
      opens_on, closes_on, needs_approval, approve_exact, approvals, approvals_by_product: the terms, or null
    - spent: what noise was drawn for
    - reserved: set aside for releases that are not drawn yet
    - used: both together
    - left: cap less used
    - opened_at, retired: when it was opened, whether it was retired
    - periods, products: by name, spent, reserved and used
    - charge_count, charges: how many there ever were, and those that moved last, the last at the end, with
      the fields below
    - release_id, product, period, amount, state, attempts: what it is for, and how often drawing began
    - revises, measurements_of: of a revision
    - draft: of a charge with a review: digest, criteria, whether it is accepted, how many officers must
      accept it, and accepted_by
    - withdrawn: of a withdrawn release: entry, at, key and reason
    """
    with open_books(home, export) as books:
        most = (last or None) if charges else 0
        if as_json:
            print_json_list(books.as_dicts(account, last=most))
            return
        for warning in books.warnings:
            say(warning, style="yellow", soft_wrap=False)
        accounts = [books.account(account)] if account else books.accounts
        if not accounts:
            command = f"tabularium ledger open NAME --cap 1{books.key_option}"
            say(f"No account is open in {books.name} yet: {command}")
        for entry in accounts:
            _show_account(books, entry)
            if charges:
                _show_charges(books, entry, last or None)
                if words := books.forecast(entry.name).words:
                    say(f"  What is left is {words}.", soft_wrap=False)


def _show_account(books: Books, entry: Account) -> None:
    terms, symbol = entry.terms, SYMBOLS[entry.definition]
    what = f"{terms.protects}, {terms.relation}, {terms.definition} {symbol}"
    out.print(Text.assemble((entry.name, "bold"), f"  {what}"), soft_wrap=True)
    full = bar(entry.cap - entry.left, entry.cap)
    sums = f"spent {entry.spent} and reserved {entry.reserved} of {entry.cap}, left {entry.left}"
    say(f"  {full}  {sums}", soft_wrap=False)
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
        say("  " + "; ".join(notes), soft_wrap=False)
    _show_scope("period", books.sums(entry.name, by="period"), terms, symbol)
    _show_scope("product", books.sums(entry.name, by="product"), terms, symbol)


def _days(entry: Account) -> Iterator[str]:
    """Say when the account takes charges, as seen from today (UTC, as the ledger judges it)."""
    today, terms = datetime.now(UTC).date().isoformat(), entry.terms
    if terms.opens_on is not None:
        yield f"{'opens on' if today < terms.opens_on else 'open since'} {terms.opens_on}"
    if terms.closes_on is not None:
        yield f"{'closes on' if today < terms.closes_on else 'closed since'} {terms.closes_on}"


def _show_scope(scope: Scope, usages: dict[str, Usage], terms: Terms, symbol: str) -> None:
    if not usages:
        return
    cap = terms.cap_in(scope)
    most = cap if cap is not None else max(sums.used for sums in usages.values())
    rows = table(scope, "", f">spent {symbol}", ">reserved", ">left")
    for name, sums in sorted(usages.items()):
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
        for charged in books.charges(entry.name, last=last):
            shown += 1
            charge = charged.charge
            names = (charge.product, charge.period)
            release = (charge.release_id, *names) if about else (f"{charge.release_id}\n{', '.join(names)}",)
            yield cells(*release, charge.amount, charged.standing, charge.attempts)

    print_rows(rows(), heading)
    if last and shown == last and (more := books.charge_count(entry.name) - shown) > 0:
        noun = "charge moved" if more == 1 else "charges moved"
        say(f"  {more} more {noun} earlier; all: tabularium ledger show {entry.name} --last 0")


@app.command("history", epilog="Example:  tabularium ledger history census")
def history(
    account: One = None,
    last: Annotated[int, typer.Option(help="Number of entries, the newest; 0 for all.")] = 50,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the entries themselves, oldest first: what was decided, by whom, why, and what it changed.

    With --json: the entries as they are in the chain; by is the key that signed, and account_reserved and
    account_spent are the account's sums afterwards.
    """
    with open_books(home, export) as books:
        entries = books.entries(account, last=last or None)
        if as_json:
            print_json_list(entries)
            return
        heading = table(">entry", "time (UTC)", "what", "about")
        heading.columns[0].no_wrap = heading.columns[2].no_wrap = True
        if out.width < WIDE:  # the day, the time below it
            heading.columns[1].max_width = 10
        print_rows((_row(entry, books.explain(entry), named=account is None) for entry in entries), heading)


def _row(entry: Mapping[str, Any], about: list[str], *, named: bool) -> list[Text]:
    if named and "account" in entry:
        about = [f"account {entry['account']}", *about]
    return cells(entry["seq"], entry["at"][:19].replace("T", " "), entry["kind"], "\n".join(about))


@app.command("review", epilog="Example:  tabularium ledger review census")
def review(
    account: One = None,
    delta: Annotated[
        str | None, typer.Option(help="δ of the (ε, δ); default: the account's, else 1/1000000000.")
    ] = None,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the plain sum of what was spent and the tightest (ε, δ), per account and per privacy unit.

    With --json: accounts (without retired ones), units and not_composable, with these fields:

    - account, unit, population, relation, definition: the terms
    - plain: spent and reserved; null for a unit with an account under zCDP
    - epsilon, delta: the same as an (ε, δ)
    - charges: of an account, how many are not voided
    - periods, products: of an account, as of `ledger show`
    - accounts, populations: of a unit, those that are added
    - whole: whether all accounts of the unit are counted
    - rho: of a unit, the sum of the ρ's, an ε counting as ε²/2
    - years, products: of a unit, plain sums by year (UTC) of reservation and by product; with partitions
      they can exceed plain
    - measure: of years and products, epsilon, or rho if zCDP is among them
    - not_composable: the units that are not added, with the populations that they share or may share
    """
    with open_books(home, export) as books:
        views, units, apart = books.review(account, delta=exact_or_none(delta, "--delta"))
        if as_json:
            print_json(
                {
                    "accounts": [_view_json(view) for view in views],
                    "units": [_unit_json(unit) for unit in units],
                    "not_composable": [vars(unit) for unit in apart],
                }
            )
            return
        _show_accounts(views)
        if units:
            _show_units(units)
            for some in apart:
                say(some.why, soft_wrap=False)
        say(BOTH_FIGURES_HOLD, soft_wrap=False)


@app.command("plot", epilog="Example:  tabularium ledger plot census spending.svg")
def plot(
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    file: Annotated[Path, typer.Argument(help="File to write: .svg, .png or .pdf.")],
    home: HomePath = None,
) -> None:
    """Plot what was reserved and spent over time, and the cap."""

    with open_books(home, None) as books:
        if file.suffix.lower() not in FORMATS:
            raise InputError(
                "is no kind of picture that is known here", where=str(file), hint="write .svg, .png or .pdf"
            )
        plot_spending(books, account, file)
        say(f"plot {file}")


def _show_accounts(views: list[AccountView]) -> None:
    rows = table("account", ">charges", ">plain sum", ">cap", ">ε", ">at δ")
    for view in views:
        terms = view.account.terms
        rows.add_row(
            *cells(f"{terms.name}\n{terms.protects}, {terms.relation}", view.charges),
            *cells(f"{SYMBOLS[terms.definition]} = {view.plain}", terms.cap),
            *cells(f"{view.epsilon:.4g}", f"{float(view.delta):.1e}"),
        )
    out.print(rows)


def _show_units(units: list[UnitView]) -> None:
    rows = table("unit over accounts", "relation", "accounts", ">plain sum", ">ε", ">at δ")
    for unit in units:
        plain = f"ε = {unit.plain}" if unit.plain is not None else f"ρ = {float(unit.rho):.4g}"
        rows.add_row(
            *cells(f"{unit.unit}\nof {', '.join(unit.populations)}", _relation(unit)),
            *cells(", ".join(unit.accounts), plain),
            *cells(f"{unit.epsilon:.4g}", f"{float(unit.delta):.1e}"),
        )
    out.print(rows)
    if len({(unit.unit, unit.relation) for unit in units}) < len(units):
        say(
            "Rows of one unit are about disjoint populations: it is in those of one row only.",
            soft_wrap=False,
        )
    for unit in units:
        _show_losses(unit)


def _show_losses(unit: UnitView) -> None:
    """Show what a unit lost in each year, and up to it, and by each product."""
    years, products = unit.by_year, unit.by_product
    if not years:
        return
    what = f"Spent and reserved on one {unit.unit} of {', '.join(unit.populations)} under {_relation(unit)}"
    say(f"{what}, by year and by product, plainly added:", soft_wrap=False)
    symbol, most = unit.symbol, max(years.values())
    rows = table("year", "", f">{symbol}", f">{symbol} so far")
    for (year, loss), so_far in zip(years.items(), accumulate(years.values()), strict=True):
        rows.add_row(*cells(year, bar(loss, most), unit.written(loss), unit.written(so_far)))
    out.print(rows)
    most = max(products.values())
    rows = table("product", "", f">{symbol}")
    for product, loss in products.items():
        rows.add_row(*cells(product, bar(loss, most), unit.written(loss)))
    out.print(rows)


def _relation(unit: UnitView) -> str:
    return unit.relation if unit.whole else f"{unit.relation} (in part)"


def _view_json(view: AccountView) -> dict[str, object]:
    terms = view.account.terms
    return {
        "account": terms.name,
        "unit": terms.unit,
        "population": terms.population,
        "relation": terms.relation,
        "definition": terms.definition,
        "plain": str(view.plain),
        "epsilon": view.epsilon,
        "delta": str(view.delta),
        "charges": view.charges,
        "periods": {name: sums.as_dict() for name, sums in view.periods.items()},
        "products": {name: sums.as_dict() for name, sums in view.products.items()},
    }


def _unit_json(unit: UnitView) -> dict[str, object]:
    years, products = unit.by_year, unit.by_product
    return {
        "unit": unit.unit,
        "populations": unit.populations,
        "relation": unit.relation,
        "accounts": unit.accounts,
        "plain": None if unit.plain is None else str(unit.plain),
        "rho": str(unit.rho),
        "epsilon": unit.epsilon,
        "delta": str(unit.delta),
        "whole": unit.whole,
        "measure": "rho" if unit.plain is None else "epsilon",
        "years": {year: str(loss) for year, loss in years.items()},
        "products": {product: str(loss) for product, loss in products.items()},
    }


FORMATS = (".svg", ".png", ".pdf")


@bare_errors
def plot_spending(books: Books, account: str, file: Path) -> None:
    """Draw the account's cap, what is used and what is spent, as steps over time.

    Raises
    ------
    InputError
        If there is no such account, or the file cannot be written.
    """
    from matplotlib.dates import date2num
    from matplotlib.figure import Figure

    course = books.course(account)
    caps, used, spent = (
        [float(getattr(point, what)) for point in course] for what in ("cap", "used", "spent")
    )
    symbol = SYMBOLS[books.account(account).definition]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    times = [float(date2num(point.at)) for point in course]
    axes.xaxis_date()
    axes.step(times, caps, where="post", color="#b3423a", linewidth=1.5, label="cap")
    axes.fill_between(times, used, spent, step="post", color="#9ec3e0", label="reserved")
    axes.fill_between(times, spent, step="post", color="#2b6ca3", label="spent")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(symbol)
    axes.set_title(f"{account}: budget over time")
    axes.legend(loc="upper left", frameon=False)
    axes.tick_params(axis="x", labelrotation=20)
    try:
        figure.savefig(file)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", where=str(file), hint="name another file"
        ) from None
