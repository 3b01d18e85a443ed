"""The page of a comparison: one HTML file that needs nothing beside it, plots included."""

from __future__ import annotations

import base64
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from tabularium.lab.comparison.error_measures import CATALOGUE
from tabularium.lab.comparison.plots import Plot
from tabularium.lab.comparison.suites import Suite

if TYPE_CHECKING:
    import pandas as pd

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
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
        f"<title>{escape(suite.title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _data_table(suite: Suite) -> str:
    sets = {data.name: data for experiment in suite.experiments for data in experiment.data}
    rows = []
    for data in sets.values():
        counts = data.counts()
        shape = " × ".join(f"{size:,}" for size in counts.shape)
        numbers = (f"{int(each):,}" for each in (counts.sum(), (counts == 0).sum(), counts.max()))
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
    said = dict.fromkeys(
        f"{row.mechanism} on {row.data}: {row.refused}" for row in rows[rows["refused"] != ""].itertuples()
    )
    return '<p class="note">Not run: ' + "; ".join(escape(text) for text in said) + "</p>" if said else ""


def _figure(plot: Plot) -> str:
    # as images, not inline: the names inside one SVG would meet those of the next
    encoded = base64.b64encode(plot.svg.encode()).decode()
    caption = escape(plot.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{encoded}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
