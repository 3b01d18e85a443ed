"""The page of a comparison: one HTML file, plots included."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from tabularium.lab.comparison.error_measures import CATALOGUE
from tabularium.lab.comparison.suites import Suite

if TYPE_CHECKING:
    import pandas as pd

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_CSS = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid #cbd2dc; padding-top: 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; margin: 1rem 0 }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e3e7ee }
th:first-child, td:first-child { text-align: left } td.best { font-weight: 700 }
.paper { color: #68707f } .note { color: #68707f; font-size: .9rem }
figure { margin: 1.5rem 0 } figure img { max-width: 100%; height: auto }
figcaption { color: #68707f; font-size: .9rem }
.scroll { overflow-x: auto }
"""


def page(
    suite: Suite, results: pd.DataFrame, plots: dict[str, list[Plot]], *, seed: int, version: str
) -> str:
    """Return the page as HTML, of results as ``run_suite`` and plots as ``drawn`` return them."""
    parts = [
        f"<h1>{escape(suite.title)}</h1>",
        f"<p>{escape(suite.says)}</p>",
        f'<p class="note">Noise is seeded (first seed {seed}) so that every run can be repeated; such '
        f"releases are insecure, and these data are public. Tabularium {escape(version)}. Figures are "
        "means over the runs; the best of a column is bold; where a paper prints a figure, it stands in "
        "brackets.</p>",
        _data_table(suite),
    ]
    for experiment in suite.experiments:
        rows = results[results["experiment"] == experiment.name]
        parts += [f"<h2>{escape(experiment.name)}</h2>", f"<p>{escape(experiment.says)}</p>"]
        parts += [_table(measure, some) for measure, some in rows.groupby("measure", sort=False)]
        parts += [_refusals(rows)]
        parts += [_figure(plot) for plot in plots.get(experiment.name, [])]
    parts += ["<h2>Seconds</h2>", *[_figure(plot) for plot in plots.get("", [])]]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(suite.title)}</title><style>{_CSS}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _data_table(suite: Suite) -> str:
    sets = {data.name: data for experiment in suite.experiments for data in experiment.data}
    rows = []
    for data in sets.values():
        counts = data.counts()
        shape = " × ".join(f"{size:,}" for size in counts.shape)
        numbers = (f"{int(number):,}" for number in (counts.sum(), (counts == 0).sum(), counts.max()))
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in (data.name, shape, *numbers, data.says)))
    head = "".join(
        f"<th>{name}</th>" for name in ("data", "cells", "total", "empty", "largest", "where from")
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _table(measure: Any, rows: pd.DataFrame) -> str:
    """Return mechanisms by (data, ε); a curve is left to its plot and the CSV."""
    some = rows[(rows["refused"] == "") & (rows["along"] == "")]
    if some.empty:
        return ""
    columns = list(dict.fromkeys(zip(some["data"], some["epsilon"], strict=True)))
    best = some.groupby(["data", "epsilon"])["error"].min()
    head = "".join(
        f"<th>{escape(data)}<br>ε = {float(Fraction(epsilon)):g}</th>" for data, epsilon in columns
    )
    body = ""
    for mechanism, line in some.groupby("mechanism", sort=False):
        cells = {(row.data, row.epsilon): row for row in line.itertuples()}
        body += f"<tr><td>{escape(str(mechanism))}</td>" + "".join(
            _cell(cells.get(column), best[column]) for column in columns
        )
        body += "</tr>"
    title = f"{escape(str(measure))}: {escape(CATALOGUE[str(measure)].says)}"
    table = f"<table><tr><th>mechanism</th>{head}</tr>{body}</table>"
    return f'<p><b>{title}</b></p><div class="scroll">{table}</div>'


def _cell(row: Any, best: float) -> str:
    if row is None:
        return "<td></td>"
    shown = _number(row.error)
    if row.standard_error == row.standard_error and row.standard_error is not None:
        shown += f' <span class="note">± {_number(row.standard_error)}</span>'
    if row.published is not None and row.published == row.published:
        shown += f' <span class="paper">({_number(row.published)})</span>'
    return f"<td{' class=best' if row.error == best else ''}>{shown}</td>"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _refusals(rows: pd.DataFrame) -> str:
    labels = dict.fromkeys(
        f"{row.mechanism} on {row.data}: {row.refused}" for row in rows[rows["refused"] != ""].itertuples()
    )
    return '<p class="note">Not run: ' + "; ".join(escape(text) for text in labels) + "</p>" if labels else ""


def _figure(plot: Plot) -> str:
    # as images, not inline: the names inside one SVG would meet those of the next
    encoded = base64.b64encode(plot.svg.encode()).decode()
    caption = escape(plot.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{encoded}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


# The plots of a comparison, as self-contained SVG texts.


# Okabe and Ito's colours, distinct to colour-blind readers; line style and marker repeat the distinction.
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
        if all(isinstance(coordinate, float) for coordinate in part["at"]):
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
    lines: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        lines.update(zip(labels, handles, strict=True))
    figure.legend(list(lines.values()), list(lines), loc="outside right upper", frameon=False, fontsize=8)


def _plot(figure: Any, caption: str) -> Plot:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return Plot(caption, text.getvalue())
