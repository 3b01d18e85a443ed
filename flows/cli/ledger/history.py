"""``tabularium ledger history``: the entries themselves, as an auditor reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

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
)
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import out, table


@app.command("history", epilog="Example:  tabularium ledger history census --last 20")
def history(
    account: One = None,
    last: Annotated[int, typer.Option(help="Only so many entries, the newest; 0 for all.")] = 50,
    export: Export = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show the entries themselves, oldest first: what was decided, by whom, why, and what it changed.

    With --json a list of entries as they stand in the chain, among their fields:

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
