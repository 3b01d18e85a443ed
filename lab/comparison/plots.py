"""The plots of a comparison, as self-contained SVG texts."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tabularium.lab.comparison.suites import Suite

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's colours, told apart by colour-blind readers; line style and marker repeat the distinction.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c", "#8c6d1f")
_MARKERS = "osD^vP*X"
_STYLE = {
    "svg.hashsalt": "tabularium",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
}
_WIDE = 3  # panels in a row


@dataclass(frozen=True)
class Plot:
    """A drawn figure: its caption, which is also the text for those who cannot see it, and the SVG."""

    caption: str
    svg: str


def drawn(suite: Suite, results: pd.DataFrame) -> dict[str, list[Plot]]:
    """Return the plots by experiment; under ``""`` the one of seconds against the number of cells."""
    import matplotlib as mpl

    mpl.use("Agg")
    good = results[results["refused"] == ""]
    with mpl.rc_context(_STYLE):
        plots = {
            experiment.name: list(_of_experiment(good[good["experiment"] == experiment.name]))
            for experiment in suite.experiments
        }
        plots[""] = [_seconds(good)] if len(good) else []
    return plots


def _of_experiment(rows: pd.DataFrame) -> Iterator[Plot]:
    for measure, some in rows.groupby("measure", sort=False):
        if (some["along"] == "").all():
            yield _against_epsilon(str(measure), some)
        else:
            yield from (
                _along_axis(str(measure), str(data), part) for data, part in some.groupby("data", sort=False)
            )


def _against_epsilon(measure: str, rows: pd.DataFrame) -> Plot:
    """Draw a panel for each data set: lines against ε, or bars where there is one ε only."""
    sets = list(rows.groupby("data", sort=False))
    figure, panels = _panels(len(sets))
    several = rows["epsilon"].nunique() > 1
    for panel, (data, part) in zip(panels, sets, strict=True):
        panel.set_title(str(data))
        if several:
            for number, (mechanism, line) in enumerate(part.groupby("mechanism", sort=False)):
                _line(
                    panel, number, [float(Fraction(text)) for text in line["epsilon"]], line, str(mechanism)
                )
            panel.set(xlabel="ε", xscale="log")
            _log_if_positive(panel, part)
        else:
            values, names = part["error"].tolist(), part["mechanism"].tolist()
            places = range(len(names))[::-1]
            spread = part["standard_error"].fillna(0).tolist()
            panel.barh(
                places, values, xerr=spread, color=_COLOURS[0], height=0.65, error_kw={"linewidth": 0.8}
            )
            panel.set_yticks(places, names)
            panel.set(xlabel=measure)
            panel.grid(visible=False, axis="y")
    if several:
        panels[0].set_ylabel(measure)
        _legend(figure, panels)
        return _plot(figure, f"{measure} against ε")
    return _plot(figure, f"{measure} at ε = {float(Fraction(rows['epsilon'].iloc[0])):g}")


def _along_axis(measure: str, data: str, rows: pd.DataFrame) -> Plot:
    """Draw a panel for each ε: lines along range lengths or size classes."""
    budgets = list(rows.groupby("epsilon", sort=False))
    figure, panels = _panels(len(budgets))
    along = rows["along"].iloc[0]
    for panel, (epsilon, part) in zip(panels, budgets, strict=True):
        for number, (mechanism, line) in enumerate(part.groupby("mechanism", sort=False)):
            _line(panel, number, line["at"].tolist(), line, str(mechanism))
        panel.set(xlabel=along, title=f"{data}, ε = {float(Fraction(str(epsilon))):g}")
        if all(isinstance(place, float) for place in part["at"]):
            panel.set_xscale("log", base=2)
        else:
            panel.tick_params(axis="x", rotation=20)
        _log_if_positive(panel, part)
    panels[0].set_ylabel(measure)
    _legend(figure, panels)
    return _plot(figure, f"{measure}: {data}, by {along}")


def _seconds(rows: pd.DataFrame) -> Plot:
    """Draw seconds of a run against the number of cells, one line for each mechanism."""
    figure, (panel,) = _panels(1)
    for number, (mechanism, part) in enumerate(rows.groupby("mechanism", sort=False)):
        line = part.groupby("cells")["seconds"].median()
        panel.plot(line.index, line.to_numpy(), label=str(mechanism), **_look(number))
    panel.set(xlabel="cells", ylabel="seconds, one core", xscale="log", yscale="log")
    _legend(figure, [panel])
    return _plot(figure, "median seconds of a run against the number of cells")


def _panels(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    wide = min(count, _WIDE)
    high = -(-count // wide)
    figure = Figure(figsize=(3.6 * wide + 1.8, 2.9 * high + 0.2), layout="constrained")
    grid = figure.subplots(high, wide, squeeze=False)
    panels = list(grid.flat)
    for spare in panels[count:]:
        spare.set_axis_off()
    return figure, panels[:count]


def _look(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": ("-", "--", ":")[number // len(_COLOURS) % 3],
    }


def _line(panel: Any, number: int, places: list[Any], rows: pd.DataFrame, label: str) -> None:
    panel.plot(places, rows["error"].tolist(), label=label, **_look(number))


def _log_if_positive(panel: Any, rows: pd.DataFrame) -> None:
    if (rows["error"] > 0).all():
        panel.set_yscale("log")


def _legend(figure: Any, panels: list[Any]) -> None:
    found: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    figure.legend(list(found.values()), list(found), loc="outside right upper", frameon=False, fontsize=8)


def _plot(figure: Any, caption: str) -> Plot:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return Plot(caption, text.getvalue())
