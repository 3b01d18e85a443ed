"""``tabularium demo``: the whole way on synthetic people, on embedded defaults, in one folder."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.terminal import TerminalReporter, bar, err, one_line_errors, out, table
from ledger import Ledger
from mechanisms.errors import InputError
from tasks.runtime.home import Home

if TYPE_CHECKING:
    import pandas as pd

CAP = Fraction(2)


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("demo"),
    rows: Annotated[int, typer.Option(help="Number of synthetic persons.")] = 50_000,
) -> None:
    """Make a sample, open an account, publish a release and show it. Takes about ten seconds."""
    with one_line_errors():
        run_demo(folder, rows)


def run_demo(folder: Path, rows: int) -> None:
    """Sample, account, release, a look at the result.

    Raises
    ------
    InputError
        If ``folder`` is in use for something else.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file", where=str(folder), mend="name a folder with --folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / "home").exists():
        raise InputError(
            "this folder is in use for something else", where=str(folder), mend="name another with --folder"
        )
    # What another shell set must not send the demo to a real ledger.
    os.environ.pop("TABULARIUM_LEDGER", None)
    home = Home.at(folder / "home")
    spec = _sample(folder, rows)
    _account(home)
    from flows.cli.run_command import run_release

    outcome = run_release(spec, None, None, home.path, TerminalReporter())
    release = Path(outcome["folder"])
    if outcome["status"] == "already published":
        out.print("\nThis release is already published; asking again cost nothing.")
    _show_table(release)
    _show_ledger(home)
    plot = _plot(release, folder / "age-pyramid.svg")
    out.print("\n[bold]Where everything lies[/bold]")
    for what, where in (
        ("microdata", folder / "people.parquet"),
        ("spec", spec),
        ("release", release),
        ("certificate", release / "certificate.json"),
        ("plot", plot),
        ("ledger", home.path / "ledger.db"),
    ):
        out.print(f"  {what:<12}{where}", soft_wrap=True, highlight=False)


def _sample(folder: Path, rows: int) -> Path:
    from flows.sample import write_sample

    target = folder / "people.parquet"
    spec = target.with_suffix(".yaml")
    if not (target.exists() and spec.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        err.print(f"  making {rows:,} synthetic persons")
        spec = write_sample("census", rows, target, overwrite=True).spec
    return spec


def _account(home: Home) -> None:
    with Ledger.connect(home.ledger_url) as ledger:
        if not any(account.name == "people" for account in ledger.accounts()):
            ledger.open_account("people", unit="record", relation="add-remove", definition="pure", cap=CAP)


def _nation(release: Path) -> pd.DataFrame:
    """Return the first table at its highest level."""
    import pandas as pd

    certificate = json.loads((release / "certificate.json").read_text())
    name = next(iter(certificate["tables"]))
    frame = pd.read_parquet(release / f"{name}.parquet")
    top: pd.DataFrame = frame.loc[frame["level"] == frame["level"].iloc[0]]
    return top


def _show_table(release: Path) -> None:
    frame = _nation(release)
    columns = [c for c in frame.columns if c not in {"level", "count", "margin"} and not _has_label(c, frame)]
    shown = table(*columns, ">count", ">± 90 %", title=f"\n{frame['level'].iloc[0]}, first rows")
    for row in frame.head(12).to_dict("records"):
        shown.add_row(*(str(row[c]) for c in columns), f"{row['count']:,}", f"{row['margin']:,}")
    out.print(shown)


def _has_label(column: str, frame: pd.DataFrame) -> bool:
    return f"{column}_label" in frame.columns


def _show_ledger(home: Home) -> None:
    with Ledger.connect(home.ledger_url) as ledger:
        left = ledger.balance("people")
        charges = len(list(ledger.charges("people")))
    noun = "charge" if charges == 1 else "charges"
    spent = CAP - left
    out.print(
        f"\nLedger: account people {bar(spent, CAP)} spent {spent} of {CAP}, left {left}, {charges} {noun}"
    )


def _plot(release: Path, target: Path) -> Path:
    """Draw the first table at its highest level, with margins of error."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    frame = _nation(release)
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium demo --folder /tmp/tabularium-demo")(demo)
