"""What the demo shows of a release: a table, a plot, and where things lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.flows.cli.demo.demo_typing import shown
from tabularium.flows.cli.terminal import out, table

if TYPE_CHECKING:
    import pandas as pd


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
