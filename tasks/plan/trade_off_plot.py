"""The picture of a plan: budget against margin of error, a panel for each table and a line for each level."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.aims import in_words
from tabularium.tasks.plan.bounds_like import in_figures
from tabularium.tasks.plan.finished_plan import Plan
from tabularium.validations.redaction import bare_errors, os_errors_as

FORMATS = (".svg", ".png", ".pdf")
# Okabe and Ito's colours, told apart by colour-blind readers; the marker repeats the distinction.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c")
_MARKERS = "osD^vPX"
_STYLE = {
    "svg.hashsalt": "plan",
    "svg.fonttype": "none",
    "font.size": 9,
    "text.parse_math": False,  # names of tables and levels are no formulas
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
}
_WIDE = 4  # panels in a row
_TICKS = (1.0, 2.0, 5.0)  # in every decade


@bare_errors
def draw_trade_off(plan: Plan, file: Path) -> None:
    """Draw a plan.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    tables = list(dict.fromkeys(each.table for each in plan.margins))
    down = -(-len(tables) // _WIDE)
    across = -(-len(tables) // down)
    counts = all(each.measure is None for each in plan.margins)  # others have units of their own
    units = {
        array.name: f", {array.measured.unit}"
        for array in plan.loaded.spec.arrays
        if array.measured is not None and array.measured.unit
    }
    symbol = plan.loaded.spec.privacy.symbol
    budgets = np.array([float(budget) for budget, _ in plan.trade_off])
    courses = np.array([margins for _, margins in plan.trade_off])
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(max(4.6, 3.1 * across), 0.5 + 2.7 * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=counts).ravel()
        for panel, table in zip(panels, tables, strict=False):
            own = [place for place, each in enumerate(plan.margins) if each.table == table]
            panel.axvline(float(plan.budget), color="#5c5c5c", linewidth=0.8, linestyle="--")
            for number, place in enumerate(own):
                each, look = plan.margins[place], number % len(_COLOURS)
                style = {"color": _COLOURS[look], "marker": _MARKERS[look]}
                panel.plot(
                    budgets,
                    courses[:, place],
                    label=each.level or "cells",
                    markersize=3.5,
                    linewidth=1.3,
                    **style,
                )
                if each.wanted is not None:
                    panel.plot(
                        float(plan.budget),
                        each.wanted,
                        markersize=10,
                        markerfacecolor="none",
                        **style,
                        linestyle="",
                    )
            panel.set(title=in_words(table, "") + units.get(table, ""), xscale="log", yscale="log")
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_figures(value)))
            panel.yaxis.set_major_locator(LogLocator(subs=_TICKS))
            panel.set_xticks(budgets[::2])
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_minor_formatter(NullFormatter())
            panel.minorticks_off()
            panel.legend(frameon=False, fontsize=8)
        for panel in panels[len(tables) - across : len(tables)]:
            panel.tick_params(labelbottom=True)  # the lowest of its column
        for panel in panels[len(tables) :]:
            panel.set_visible(False)
        figure.supxlabel(
            f"budget, {symbol}; dashed: as planned, with what is wanted as open markers", fontsize=9
        )
        figure.supylabel(
            f"margin of error ({float(plan.loaded.spec.publication.confidence):.0%})", fontsize=9
        )
        with os_errors_as(InputError, "cannot be written ({reason})", where=file, hint="name another file"):
            figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
