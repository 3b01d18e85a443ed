"""Plots of margins by size and level: SVG that takes its colours from the page, in light and in dark.

Levels are told apart by colour (Okabe and Ito's, which colour-blind readers tell apart), marker and place.
The same numbers stand in a table beside each plot.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from xml.etree import ElementTree

from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.tasks.report.accuracy import AccuracyLine
from tabularium.tasks.report.wording import short, size_words

_MARKERS = "osD^vP"
_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
# What matplotlib draws with, and what it becomes in the page.
_INK, _FAINT = "#010101", "#020202"
_SERIES = tuple(f"#0{number}0{number}0{number}" for number in range(3, 9))
_BECOMES = {
    _INK: "var(--ink)",
    _FAINT: "var(--line)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES)},
}
_STYLE = {
    "svg.hashsalt": "report",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,  # names of levels are no formulas
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _FAINT,
}


@dataclass(frozen=True)
class Plot:
    """A picture, and what it shows in words."""

    svg: str
    alternative: str


def plots_of(title: str, lines: list[AccuracyLine], prefix: str) -> list[Plot]:
    """Return the plots of one table: margins, and margins as parts of the count.

    Parameters
    ----------
    prefix
        Begins every id in the pictures, so that no two of a page are the same.
    """
    import matplotlib as mpl

    known = [line for line in lines if line.size is not None and line.median is not None]
    if len(known) < 2:
        return []
    with mpl.rc_context(_STYLE):
        made = [
            _plot(known, f"{prefix}-margin", "margin of error", lambda line: (line.median, line.most), title),
            _plot(
                [line for line in known if line.relative is not None],
                f"{prefix}-relative",
                "margin in % of the count",
                lambda line: (100 * (line.relative or 0), 100 * (line.relative_most or 0)),
                title,
            ),
        ]
    return [plot for plot in made if plot is not None]


def _plot(
    lines: list[AccuracyLine],
    prefix: str,
    what: str,
    pair: Callable[[AccuracyLine], tuple[float | None, float | None]],
    title: str,
) -> Plot | None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    if not lines:
        return None
    levels = list(dict.fromkeys(line.level for line in lines))[: len(_MARKERS)]
    sizes = [size for size in SIZES if any(line.size == size for line in lines)]
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    ends: list[float] = []
    for number, level in enumerate(levels):
        own = [line for line in lines if line.level == level]
        at = [sizes.index(line.size) + 0.13 * (number - (len(levels) - 1) / 2) for line in own if line.size]
        low, high = zip(*(pair(line) for line in own), strict=True)
        ends += [float(each) for each in (*low, *high)]
        axes.vlines(at, low, high, color=_SERIES[number], linewidth=2)
        axes.plot(
            at,
            low,
            linestyle="none",
            marker=_MARKERS[number],
            markersize=6,
            color=_SERIES[number],
            label=level,
        )
    if min(ends) > 0 and max(ends) > 20 * min(ends):
        axes.set_yscale("log")
        axes.set_ylim(min(ends) / 1.6, max(ends) * 1.6)
    else:
        axes.set_ylim(0, 1.12 * max(*ends, 1e-9))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(range(len(sizes)), [size_words(size) for size in sizes])
    axes.set_xlim(-0.6, len(sizes) - 0.4)
    axes.set_xlabel("published count")
    axes.set_ylabel(what)
    if levels != [""]:
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9, handletextpad=0.2)
    return Plot(_for_the_page(figure, prefix), _in_words(lines, levels, what, pair, title))


def _in_words(
    lines: list[AccuracyLine],
    levels: list[str],
    what: str,
    pair: Callable[[AccuracyLine], tuple[float | None, float | None]],
    title: str,
) -> str:
    """Return what a picture shows, for those who do not see it."""
    said = []
    for level in levels:
        own = [line for line in lines if line.level == level and line.size is not None]
        parts = "; ".join(
            f"counts of {size_words(line.size)}: {short(pair(line)[0])}, up to {short(pair(line)[1])}"
            for line in own
            if line.size
        )
        said.append(f"{level}: {parts}" if level else parts)
    return f"Plot of the median and the 95th percentile of the {what} in {title}. " + ". ".join(said) + "."


def _for_the_page(figure: Any, prefix: str) -> str:
    """Return the picture as an element of the page: its own ids, the page's colours, no fixed size."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ElementTree.fromstring(written.getvalue())  # noqa: S314 - it was drawn here
    ElementTree.register_namespace("", _SVG)
    for child in list(root):
        if child.tag == f"{{{_SVG}}}metadata":
            root.remove(child)
    names = {each.attrib["id"]: f"{prefix}-{at}" for each, at in zip(_with_ids(root), count(), strict=False)}
    for each in root.iter():
        for key, value in list(each.attrib.items()):
            if key == "id":
                each.attrib[key] = names[value]
            elif key == _LINK:
                del each.attrib[key]
                each.attrib["href"] = f"#{names[value[1:]]}"
            else:
                each.attrib[key] = _own(value, names)
    for key in ("width", "height"):
        del root.attrib[key]
    root.attrib.update({"aria-hidden": "true", "focusable": "false"})
    return ElementTree.tostring(root, encoding="unicode")


def _with_ids(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in root.iter() if "id" in each.attrib]


def _own(value: str, names: dict[str, str]) -> str:
    if value.startswith("url(#"):
        return f"url(#{names[value[5:-1]]})"
    for drawn, colour in _BECOMES.items():
        value = value.replace(drawn, colour)
    return value
