"""The story of a release, from an empty folder to published tables, by the commands that one would type."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabularium.flows.cli.terminal import TerminalReporter, one_line_errors, out, say, table, working
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.arrival.manifest import MANIFEST
from tabularium.tasks.arrival.places import deliver as put
from tabularium.tasks.runtime.extras import require
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    import pandas as pd
    from prefect.client.schemas.objects import FlowRun

_ACCOUNT, _PERIOD, _DROP = "people", "2025", "delivery-1"  # the first two as the spec of the sample has them
# What another shell set must not send the demo to a real ledger, a real server or somebody's key.
_FOREIGN = ("TABULARIUM_", "PREFECT_")
_PATIENCE = 180.0  # seconds


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("demo"),
    rows: Annotated[int, typer.Option(help="Number of synthetic persons.")] = 50_000,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
) -> None:
    """Show a release from start to end: data arrive, an officer approves, tables are published.

    It takes about a minute. Run it again: the release is there, and paid for once.
    """
    with one_line_errors():
        require("sqlalchemy", "prefect", "watchfiles", "matplotlib", where="demo")
        began = time.monotonic()
        folder = folder.absolute()
        _see_free(folder)
        for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
            del os.environ[name]
        os.environ["PREFECT_HOME"] = str(folder / "home" / "prefect")
        os.environ["TABULARIUM_WITNESS"] = str(folder / "witness")  # an agency has it on another disk
        home, spec = Home.at(folder / "home"), folder / "people.yaml"
        if _is_published(home):
            _title("Once more")
        else:
            _tell(folder, home, spec, rows, port)
        release = _ask_again(spec, home)
        _title("What was published")
        plot = _show(release, folder / "age-pyramid.svg")
        _title("What the ledger says")
        _type("ledger", "show", _ACCOUNT, "--home", home.path)
        _title("Where everything lies")
        for what, where in {
            "microdata": drop_lies_in(folder / "inbox"),
            "spec": spec,
            "release": release,
            "certificate": release / "certificate.json",
            "plot": plot,
            "home": home.path,
            "witness": folder / "witness",
        }.items():
            say(f"  {what:<12}{_shown(where)}")
        out.print(
            f"\nThe UI again: tabularium up --home {_shown(home.path)}", soft_wrap=True, highlight=False
        )
        out.print(f"[dim]{time.monotonic() - began:.0f} s in all[/dim]")


def _see_free(folder: Path) -> None:
    hint = "name another with --folder"
    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file", where=str(folder), hint=hint)
    if folder.exists() and any(folder.iterdir()) and not (folder / "home").exists():
        raise InputError("this folder is in use for something else", where=str(folder), hint=hint)


def _is_published(home: Home) -> bool:
    if not (home.path / "ledger.db").exists():
        return False
    from tabularium.ledger import Ledger

    with Ledger.connect(home.ledger_url) as books:
        opened = any(account.name == _ACCOUNT for account in books.accounts())
        return opened and any(charge.state == "published" for charge in books.charges(_ACCOUNT))


def _tell(folder: Path, home: Home, spec: Path, rows: int, port: int) -> None:
    key, inbox, people = folder / "officer.pem", folder / "inbox", folder / "people.parquet"
    ours = ("--home", home.path)
    with _running(home, port) as up:
        _title("Synthetic persons, and a spec of what is to be published about them")
        if not spec.exists():
            _type("sample", "--rows", rows, "--out", people, "--overwrite")
        _title("An account, and an officer who has to approve what it pays")
        _open_account(home, key)
        _title("An installation: Prefect's server, a worker, a watcher of inboxes")
        _await_installation(home, up)
        _title("A product that publishes itself when its data arrive")
        inbox.mkdir(exist_ok=True, mode=0o700)
        _type("deploy", spec, "--on-arrival", inbox, *ours)
        _title("Data arrive, their manifest last")
        deliver(people, inbox, _ACCOUNT, _PERIOD)
        stopped = _await_run(home, "Suspended", "Completed")
        if _state(stopped) != "Completed":
            _title("The run waits for the officer, who approves")
            _type("ledger", "approve", spec, "--period", _PERIOD, "--key", key, *ours)
            _await_run(home, "Completed", after=stopped)
        until = time.monotonic() + 10  # the watcher puts the drop away: it looks again every few seconds
        while drop_lies_in(inbox).parent == inbox and time.monotonic() < until:
            time.sleep(0.2)


def _open_account(home: Home, key: Path) -> None:
    from tabularium.ledger import Ledger

    ours = ("--home", home.path)
    if not key.exists():
        _type("ledger", "keys", "new", key)
    with Ledger.connect(home.ledger_url) as books:
        enrolled = bool(books.keys())
        opened = any(account.name == _ACCOUNT for account in books.accounts())
    if not enrolled:
        public = key.with_suffix(".pub.pem")
        _type("ledger", "keys", "enrol", public, "--officer", "A. Sato", "--key", key, *ours)
    if not opened:
        terms = ("--cap", "2", "--unit", "record", "--needs-approval")
        _type("ledger", "open", _ACCOUNT, *terms, "--key", key, *ours)


def deliver(data: Path, inbox: Path, product: str, period: str) -> None:
    """Put a drop into the inbox, as a sender of data does, unless it lies there or was put away."""
    if not drop_lies_in(inbox).exists():
        drop = put([data], Inbox(product, str(inbox), ""), period, name=_DROP)
        say(f"{_shown(drop / data.name)}\n{_shown(drop / MANIFEST)}")


def drop_lies_in(inbox: Path) -> Path:
    """Return where the drop lies: in the inbox, or where it was put away."""
    places = (inbox / _DROP, inbox / "done" / _DROP, inbox / "quarantine" / _DROP)
    return next((folder for folder in places if (folder / MANIFEST).exists()), places[0])


def _ask_again(spec: Path, home: Home) -> Path:
    """Ask for the release by hand: it is there, and costs nothing."""
    from tabularium.flows.cli.run_command import run_release
    from tabularium.tasks.runtime.run import Request

    out.print(f"\n[bold]$ tabularium run {_shown(spec)} --home {_shown(home.path)}[/bold]", soft_wrap=True)
    outcome = run_release(Request.of(spec, home=home.path), TerminalReporter(quiet=True))
    if outcome["status"] != "already published":
        raise InputError(
            "the release is not published", where=str(spec), hint="remove the folder, begin again"
        )
    out.print("This release is already published; asking again cost nothing.")
    return Path(outcome["folder"])


def _shown(word: object) -> str:
    """Return a word of a command line as one would type it here: paths below this folder without it."""
    if isinstance(word, Path) and word.is_relative_to(Path.cwd()):
        word = word.relative_to(Path.cwd())
    return shlex.quote(str(word))


def _title(text: str) -> None:
    out.print(f"\n[bold cyan]{text}[/bold cyan]")


def _type(*words: object) -> None:
    """Show a command and run it in this process, to its end if it fails."""
    from tabularium.flows.cli.app import app

    out.print(f"[bold]$ tabularium {' '.join(map(_shown, words))}[/bold]", soft_wrap=True, highlight=False)
    command = typer.main.get_command(app)
    if code := command.main([str(word) for word in words], prog_name="tabularium", standalone_mode=False):
        raise typer.Exit(code)


@contextmanager
def _running(home: Home, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run ``tabularium up`` while the block runs."""
    words = ["up", "--home", str(home.path), "--port", str(port)]
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-P", "-m", "tabularium.flows.cli.app", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C comes here first, and then it is stopped in good order
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_installation(home: Home, up: subprocess.Popen[str]) -> None:
    """Wait until it runs, and show what it says."""
    began = time.monotonic()
    out.print(f"[bold]$ tabularium up --home {_shown(home.path)}[/bold]", soft_wrap=True)
    with working("starting"):
        for line in up.stdout or ():
            say(line.rstrip())
            if "Ctrl-C" in line:
                out.print(f"[dim]ready after {time.monotonic() - began:.0f} s[/dim]")
                return
    raise _failure(home, "the installation did not start")


def _await_run(home: Home, *wanted: str, after: FlowRun | None = None) -> FlowRun:
    """Wait until the last run stands in a state of these names, and no more where it stood ``after``."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
    from prefect.client.schemas.sorting import FlowRunSort

    from tabularium.flows.operations.prefect_api import connected

    of_product = FlowRunFilter(tags=FlowRunFilterTags(all_=[f"product:{_ACCOUNT}"]))
    began = time.monotonic()
    with connected(home) as url, get_client(sync_client=True) as client, working("the run"):
        while time.monotonic() - began < _PATIENCE:
            time.sleep(0.25)
            for run in client.read_flow_runs(
                flow_run_filter=of_product, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=1
            ):
                if after is not None and run.state_id == after.state_id:
                    continue
                if _state(run) in wanted:
                    page = f"{str(url).removesuffix('/api')}/runs/flow-run/{run.id}"
                    say(f"{_state(run)} after {time.monotonic() - began:.0f} s: {page}")
                    return run
                if _state(run) in ("Failed", "Crashed", "Cancelled"):
                    raise _failure(home, f"the run is {_state(run).lower()}")
    raise _failure(home, "the run did not come to its end")


def _state(run: FlowRun) -> str:
    """Return its state as it is shown: a run that waits for an officer is paused, and called suspended."""
    if run.state is None:
        return ""
    return "Suspended" if run.state.name == "Suspended" else run.state.type.value.capitalize()


def _failure(home: Home, what: str) -> InputError:
    logs = str(home.path / "server" / "logs")
    return InputError(what, where=logs, hint="read the logs there, and run the demo again")


def _show(release: Path, target: Path) -> Path:
    """Print the first rows of the first table at its highest level, and draw it all into a new picture."""
    from tabularium import open as open_release

    first = next(iter(open_release(release).values()))
    level = first.levels[0]
    frame = first.to_pandas(level=level)
    names = [
        name
        for name in frame.columns
        if name not in {"count", "margin"} and f"{name}_label" not in frame.columns
    ]
    rows = table(*names, ">count", ">± 90 %", title=f"\n{level}, first rows")
    for row in frame.head(12).to_dict("records"):
        rows.add_row(*(str(row[name]) for name in names), f"{row['count']:,}", f"{row['margin']:,}")
    out.print(rows)
    _draw(frame, names[-2], names[-1], target)
    return target


def _draw(frame: pd.DataFrame, rows: str, by: str, target: Path) -> None:
    """Draw counts with their margins of error: a bar for each of ``rows``, a panel for each of ``by``."""
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys(frame[by]))
    figure = Figure(figsize=(4 * len(groups), 5), layout="constrained")
    panels: Any = figure.subplots(1, len(groups), sharex=True, sharey=True)
    for panel, group in zip(panels, groups, strict=True):
        part = frame[frame[by] == group]
        labels = part[rows].astype(str)
        panel.barh(labels, part["count"], xerr=part["margin"], color="#4c72b0", ecolor="#c44e52")
        panel.set_title(str(group))
        panel.set_xlabel("persons, bar: 90 % margin of error")
    panels[0].set_ylabel(rows.removesuffix("_label"))
    figure.savefig(target)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium demo --folder /tmp/tabularium-demo")(demo)
