"""Options and output of every ``tabularium ledger …`` command."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.table import Table
from rich.text import Text

import tabularium
from tabularium.flows.cli.terminal import one_line_errors, out, say, working, write
from tabularium.ledger.amounts import exact
from tabularium.ledger.keys import read_private
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from tabularium import Books, Decided, Officer
    from tabularium.ledger import Ledger

app = typer.Typer(help="Open accounts, see what is spent and left, verify the chain.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Why; kept in the ledger.")]
KeyOrNone = Annotated[
    Path | None,
    typer.Option(
        "--key",
        help="Private key (PEM) of the officer who signs; where nothing else is stated, needed while an "
        "officer's key is enrolled, or if the account needs approvals.",
    ),
]
One = Annotated[str | None, typer.Argument(help="One account; default: all.")]
Export = Annotated[
    Path | None,
    typer.Option("--export", help="Read this exported ledger instead, once it verifies; needs no home."),
]
KeyFile = Annotated[Path, typer.Option("--key", help="Private key (PEM) of the officer who signs.")]


#: Characters from which on every value of a row has a column of its own.
WIDE = 110
_LATER = "where there are any, they go on within a minute once the server and the watcher run"
_AT_ONCE = 200  # rows or values that are held in memory while many are printed


@contextmanager
def open_ledger(home: Path | None, *, reading: bool = False) -> Iterator[Ledger]:
    """Open the ledger of a home for one command, errors in one line.

    ``reading``: whether the command only reads: then the home must be there, and need not be writable.
    """
    with one_line_errors():
        from tabularium.ledger import Ledger

        installation = Home.found(home) if reading else Home.at(home)
        heads = MeasurementStore(installation.measurements).heads()
        with Ledger.connect(installation.ledger_url, known_heads=heads, make=not reading) as ledger:
            if not reading:
                installation.remember_ledger()
            yield ledger


@contextmanager
def open_books(home: Path | None, export: Path | None) -> Iterator[Books]:
    """Open a ledger to look at it, errors in one line: that of a home, or an exported one."""
    with one_line_errors(), tabularium.open_ledger(home, export=export) as books:
        yield books


def exact_or_none(text: str | None, where: str) -> Fraction | None:
    """Read an exact amount from the command line, or ``none`` (or nothing) for none."""
    return None if text is None or text == "none" else exact(text, field=where)


def signer(key: Path | None) -> Ed25519PrivateKey | None:
    """Read the key of the officer who signs, if one is given."""
    return None if key is None else read_private(key, passphrase())


def passphrase() -> bytes | None:
    """Return the passphrase of officers' keys, which only the environment may hold."""
    text = os.environ.get("TABULARIUM_KEY_PASSPHRASE")
    return text.encode() if text else None


def officer(home: Path | None, key: Path) -> Officer:
    """Open the key of an officer who decides."""
    hidden = passphrase()
    return tabularium.officer(home, key=key, passphrase=None if hidden is None else hidden.decode())


def say_decided(decided: Decided) -> None:
    """Say what was decided, and which runs go on."""
    say(decided.summary)
    _say_resumed(decided.resumed, decided.resume_error)


def _say_resumed(resumed: Collection[str], resume_error: str = "") -> None:
    if resume_error:
        say(f"Runs that wait for this could not be notified ({resume_error}); {_LATER}.")
    elif resumed:
        say(f"{len(resumed)} waiting {'run goes' if len(resumed) == 1 else 'runs go'} on.")


def resume_waiting_runs(
    home: Path | None, *, release_id: str | None = None, spec_digests: Collection[str] | None = None
) -> list[str]:
    """Let the flow runs go on that waited for what an officer has decided now.

    Returns the digest of the spec of each.
    """
    installation = Home.at(home)
    try:
        with working("looking for runs that wait"):
            from tabularium.flows.operations.waiting import resume_waiting

            resumed = resume_waiting(installation, release_id=release_id, spec_digests=spec_digests)
    except Exception as error:  # what was decided stands, whatever becomes of the runs
        _say_resumed((), type(error).__name__)
        return []
    _say_resumed(resumed)
    return resumed


def say_who_waits(home: Path | None) -> None:
    """Say which runs wait for an officer, after a decision that none of them waited for.

    Where no Prefect API is known, or it does not answer, nothing is printed.
    """
    from tabularium.flows.operations.prefect_api import configured_url, connected
    from tabularium.flows.operations.server_address import written_address

    installation = Home.at(home)
    if configured_url() is None and written_address(installation) is None:
        return
    with suppress(Exception), connected(installation, needed=False) as url:
        if url is None:
            return
        from prefect.client.orchestration import get_client

        from tabularium.flows.operations.reporting.overdue import waiting_for_officers

        with working("asking who waits"), get_client(sync_client=True) as client:
            others = waiting_for_officers(client)
        say(f"No run waits for this{'; waiting for an officer: ' if others else '.'}{'; '.join(others)}")


def cells(*values: object) -> list[Text]:
    """Return the cells of a row of a table, each as it is."""
    return [Text(str(value)) for value in values]


def print_rows(rows: Iterable[list[Text]], heading: Table) -> None:
    """Print a table of any length, in pieces that each have the columns of ``heading``, itself empty."""
    left = iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        piece = Table(box=heading.box)
        for column in heading.columns:
            piece.add_column(
                column.header,
                justify=column.justify,
                overflow=column.overflow,
                no_wrap=column.no_wrap,
                min_width=column.min_width,
                max_width=column.max_width,
            )
        for row in some:
            piece.add_row(*row)
        out.print(piece)


def print_json_list(values: Iterable[Any]) -> None:
    """Print a list of values for programs, one at a time, as it would be printed at once.

    Where the reader has closed the pipe, the command ends without a message.
    """
    before = "["
    for value in values:
        text = json.dumps(value, indent=2, default=str).replace("\n", "\n  ")
        write(f"{before}\n  {text}")
        before = ","
    write("[]\n" if before == "[" else "\n]\n", last=True)
