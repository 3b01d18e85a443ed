"""The story of a release, from an empty folder to published tables, by the commands that one would type."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabularium.lab.demo.demo_delivery import deliver, drop_lies_in
from tabularium.lab.demo.demo_server import await_run, running_installation
from tabularium.lab.demo.demo_typing import shown, title, typed
from tabularium.flows.cli.terminal import TerminalReporter, one_line_errors, out, table
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    import pandas as pd

_ACCOUNT, _PERIOD = "people", "2025"  # as the spec of the sample has them
# What another shell set must not send the demo to a real ledger, a real server or somebody's key.
_FOREIGN = ("TABULARIUM_", "PREFECT_")


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("demo"),
    rows: Annotated[int, typer.Option(help="Number of synthetic persons.")] = 50_000,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
) -> None:
    """Tell the whole story: data arrive, a run waits, an officer approves, tables are published.

    It takes about a minute. Run again, it shows that the release is published already, and was paid for once.
    """
    with one_line_errors():
        run_demo(folder, rows, port)


def run_demo(folder: Path, rows: int, port: int) -> None:
    """Tell the story in ``folder``, or how it ended before.

    Raises
    ------
    InputError
        If ``folder`` is in use for something else.
    """
    began = time.monotonic()
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file", where=str(folder), hint="name a folder with --folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / "home").exists():
        raise InputError(
            "this folder is in use for something else", where=str(folder), hint="name another with --folder"
        )
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ["PREFECT_HOME"] = str(folder / "home" / "prefect")
    os.environ["TABULARIUM_WITNESS"] = str(folder / "witness")  # an agency has it on another disk
    home = Home.at(folder / "home")
    spec = folder / "people.yaml"
    if not _is_published(home):
        _tell(folder, home, rows, port)
    else:
        title("Once more")
    release = _ask_again(spec, home)
    title("What was published")
    table = nation(release)
    show_table(table)
    drawn = plot(table, folder / "age-pyramid.svg")
    title("What the ledger says")
    typed("ledger", "show", _ACCOUNT, "--home", home.path)
    title("Where everything lies")
    show_places(
        microdata=drop_lies_in(folder / "inbox"),
        spec=spec,
        release=release,
        certificate=release / "certificate.json",
        plot=drawn,
        home=home.path,
        witness=folder / "witness",
    )
    out.print(f"\nThe UI again: tabularium up --home {shown(home.path)}", soft_wrap=True, highlight=False)
    out.print(f"[dim]{time.monotonic() - began:.0f} s in all[/dim]")


def _is_published(home: Home) -> bool:
    if not (home.path / "ledger.db").exists():
        return False
    with Ledger.connect(home.ledger_url) as books:
        if not any(account.name == _ACCOUNT for account in books.accounts()):
            return False
        return any(charge.state == "published" for charge in books.charges(_ACCOUNT))


def _tell(folder: Path, home: Home, rows: int, port: int) -> None:
    spec, key, inbox = folder / "people.yaml", folder / "officer.pem", folder / "inbox"
    ours = ("--home", home.path)
    with running_installation(home, port) as installation:
        title("Synthetic persons, and a spec of what is to be published about them")
        people = folder / "people.parquet"
        if not spec.exists():
            typed("sample", "--rows", rows, "--out", people, "--overwrite")
        title("An account, and an officer who has to approve what it pays")
        _open_account(home, key)
        title("An installation: Prefect's server, a worker, a watcher of inboxes")
        installation.wait()
        title("A product that publishes itself when its data arrive")
        inbox.mkdir(exist_ok=True, mode=0o700)
        typed("deploy", spec, "--on-arrival", inbox, *ours)
        title("Data arrive, their manifest last")
        deliver(people, inbox, _ACCOUNT, _PERIOD)
        stopped = await_run(home, _ACCOUNT, "SUSPENDED", "COMPLETED")
        if stopped.state != "COMPLETED":
            title("The run waits for the officer, who approves")
            typed("ledger", "approve", spec, "--period", _PERIOD, "--key", key, *ours)
            await_run(home, _ACCOUNT, "COMPLETED", after=stopped)
        installation.settle(inbox)


def _open_account(home: Home, key: Path) -> None:
    ours = ("--home", home.path)
    if not key.exists():
        typed("ledger", "keys", "new", key)
    with Ledger.connect(home.ledger_url) as books:
        enrolled = bool(books.keys())
        there = any(account.name == _ACCOUNT for account in books.accounts())
    if not enrolled:
        public = key.with_suffix(".pub.pem")
        typed("ledger", "keys", "enrol", public, "--officer", "A. Sato", "--key", key, *ours)
    if not there:
        terms = ("--cap", "2", "--unit", "record", "--needs-approval")
        typed("ledger", "open", _ACCOUNT, *terms, "--key", key, *ours)


def _ask_again(spec: Path, home: Home) -> Path:
    """Ask for the release by hand: it is there, and costs nothing."""
    from tabularium.flows.cli.run_command import run_release

    out.print(f"\n[bold]$ tabularium run {shown(spec)} --home {shown(home.path)}[/bold]", soft_wrap=True)
    outcome = run_release(spec, None, None, home.path, TerminalReporter(quiet=True))
    if outcome["status"] != "already published":
        raise InputError(
            "the release is not published", where=str(spec), hint="remove the folder, begin anew"
        )
    out.print("This release is already published; asking again cost nothing.")
    return Path(outcome["folder"])


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium demo --folder /tmp/tabularium-demo")(demo)


def nation(release: Path) -> pd.DataFrame:
    """Return the first table at its highest level."""

    from tabularium import open as open_release

    table = next(iter(open_release(release).values()))
    top = table.to_pandas(level=table.levels[0])
    return top.assign(level=table.levels[0])


def show_table(frame: pd.DataFrame) -> None:
    """Print the first rows of a table, with margins of error."""
    columns = [c for c in frame.columns if c not in {"level", "count", "margin"} and not _has_label(c, frame)]
    rows = table(*columns, ">count", ">± 90 %", title=f"\n{frame['level'].iloc[0]}, first rows")
    for row in frame.head(12).to_dict("records"):
        rows.add_row(*(str(row[c]) for c in columns), f"{row['count']:,}", f"{row['margin']:,}")
    out.print(rows)


def _has_label(column: str, frame: pd.DataFrame) -> bool:
    return f"{column}_label" in frame.columns


def plot(frame: pd.DataFrame, target: Path) -> Path:
    """Draw a table with margins of error, and return the file."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    names = [c for c in frame.columns if c not in {"level", "count", "margin"} and not _has_label(c, frame)]
    rows, by = names[-2], names[-1]
    groups = list(dict.fromkeys(frame[by]))
    figure, axes = plt.subplots(
        1, len(groups), sharex=True, sharey=True, figsize=(4 * len(groups), 5), layout="constrained"
    )
    for axis, group in zip(axes, groups, strict=True):
        part = frame[frame[by] == group]
        axis.barh(
            part[rows].astype(str), part["count"], xerr=part["margin"], color="#4c72b0", ecolor="#c44e52"
        )
        axis.set_title(str(group))
        axis.set_xlabel("persons, bar: 90 % margin of error")
    axes[0].set_ylabel(rows.removesuffix("_label"))
    figure.savefig(target)
    plt.close(figure)
    return target


def show_places(**places: Path) -> None:
    """Print what lies where."""
    for what, where in places.items():
        out.print(f"  {what:<12}{shown(where)}", soft_wrap=True, highlight=False)
