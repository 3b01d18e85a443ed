"""``tabularium ledger review|plot``: what was spent on whom, and when."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Annotated

import typer

from tabularium import Books
from tabularium.flows.cli.ledger.shared_options import Export, One, app, cells, exact_or_none, open_books, say
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import bar, out, print_json, table
from tabularium.ledger.records import SYMBOLS
from tabularium.ledger.review import BOTH_FIGURES_HOLD, AccountView, UnitView
from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors


@app.command("review", epilog="Example:  tabularium ledger review --delta 1/1000000000")
def review(
    account: One = None,
    delta: Annotated[
        str | None, typer.Option(help="The δ of the (ε, δ); default: the account's, else 1/1000000000.")
    ] = None,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the plain sum of what was spent and the tightest (ε, δ), per account and per privacy unit.

    Accounts that protect the same entity are added, unless an officer has signed that their populations are
    disjoint; accounts of different entities never are. What was spent and reserved on a unit is shown by year
    and product too.

    With --json: accounts (without retired ones), units and not_composable, with these fields:

    - account, unit, population, relation, definition: the terms
    - plain: everything spent and reserved, plainly summed; of a unit null if an account is under zCDP
    - epsilon, delta: the same as an (ε, δ)
    - charges: of an account, how many count (voided ones do not)
    - periods, products: of an account, its sums as `ledger show` has them
    - accounts, populations: of a unit, those that are added because it may be in all of them
    - whole: whether all accounts of the unit are counted
    - rho: of a unit, the sum of the ρ's, an ε counting as ε²/2
    - years, products: of a unit, the charges of each, plainly added, by the year (UTC) in which they were
      reserved; parts of one partition are added too, so these can exceed plain
    - measure: what those are, epsilon, or rho where zCDP is among them
    - not_composable: the entities (units) that are not added, with populations that they share or may share
    """
    with open_books(home, export) as books:
        views, units, apart = books.review(account, delta=exact_or_none(delta, "--delta"))
        if as_json:
            print_json(
                {
                    "accounts": [_view_json(view) for view in views],
                    "units": [_unit_json(unit) for unit in units],
                    "not_composable": [vars(each) for each in apart],
                }
            )
            return
        _show_accounts(views)
        if units:
            _show_units(units)
            for each in apart:
                say(each.why, whole=False)
        say(BOTH_FIGURES_HOLD, whole=False)


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
        say("Rows of one unit are about disjoint populations: it is in those of one row only.", whole=False)
    for unit in units:
        _show_losses(unit)


def _show_losses(unit: UnitView) -> None:
    """Show what a unit lost in each year, and up to it, and by each product."""
    years, products = unit.by_year, unit.by_product
    if not years:
        return
    what = f"Spent and reserved on one {unit.unit} of {', '.join(unit.populations)} under {_relation(unit)}"
    say(f"{what}, by year and by product, plainly added:", whole=False)
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
