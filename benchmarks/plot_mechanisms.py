"""Draw the pictures of the mechanisms' pages: truth and release, and what a run costs.

    python -m benchmarks.plot_mechanisms [--mechanism NAME ...] [--out docs/reference/mechanisms] [--largest 20]

Truth is a made-up histogram that resembles a published one (``tabularium.lab.comparison.data_sets``), so the pictures
can be drawn anywhere. Noise is seeded: the same picture every time, but for the seconds.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.bench_speed import FORMS, curve
from tabularium.lab.comparison.data_sets import lookalike
from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import SeededChannel

mpl.use("Agg")
from matplotlib import pyplot as plt

EPSILON = Fraction(1, 10)
SORTED = {"privhist", "sorted_isotonic"}  # they say how many cells have which count, and not which
SHOWN = slice(14_760, 14_960)  # of the time series: quiet bins and a burst
STYLE = {
    "svg.hashsalt": "tabularium",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def _shown(name: str) -> tuple[Any, Any, Any]:
    """Return places, truth and release as they are drawn: a stretch of bins, or counts in descending order."""
    counts = lookalike("search_log")
    parameters = {"structure_first": {"largest_count": 500}, "fpa": {"k": 64}}.get(name, {})
    values = build(name, **parameters).release(counts, SeededChannel(EPSILON, seed=1)).values
    if name not in SORTED:
        return np.arange(counts.size)[SHOWN], counts[SHOWN], values[SHOWN]
    if values.ndim == 2:  # (count, multiplicity)
        values = np.repeat(values[:, 0], values[:, 1])
    values = np.sort(values)[::-1][: counts.size]
    values = np.pad(values, (0, counts.size - values.size))
    ranks = np.unique(np.geomspace(1, counts.size, 200).astype(int))
    return ranks, np.sort(counts)[::-1][ranks - 1], values[ranks - 1]


def picture(name: str, largest: int) -> Any:
    """Return a figure: truth and release on the left, seconds against bins on the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=(2.4, 1), layout="constrained")
    bins, truth, values = _shown(name)
    left.fill_between(bins, truth, step="mid", color="#c9ced6", label="truth")
    left.plot(bins, values, drawstyle="steps-mid", color="#b3322c", linewidth=0.9, label="release")
    left.set(xlabel="bin", ylabel="count", title=f"{name}, epsilon = {float(EPSILON):g} (made-up search log)")
    if name in SORTED:
        left.set(xlabel="rank of the bin", xscale="log", xlim=(1, bins[-1]))
    left.legend(frameon=False, loc="best")
    for label, (mechanism, _, _) in FORMS.items():
        if mechanism == name:
            sizes, seconds = zip(*curve(label, range(10, largest + 1, 2), 1), strict=True)
            right.loglog(sizes, seconds, marker="o", markersize=3, linewidth=1, label=label)
    right.set(xlabel="bins", ylabel="seconds, one core", title="cost of a run")
    right.legend(frameon=False, fontsize=7)
    return figure


def main() -> None:
    """Draw and write one SVG for each mechanism."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted({name for name, _, _ in FORMS.values()} & set(MECHANISMS))
    parser.add_argument("--mechanism", nargs="+", default=names)
    parser.add_argument("--out", type=Path, default=Path("docs/reference/mechanisms"))
    parser.add_argument("--largest", type=int, default=20, help="largest number of bins, as a power of two")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in options.mechanism:
            figure = picture(name, options.largest)
            figure.savefig(options.out / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)
            print(options.out / f"{name}.svg")


if __name__ == "__main__":
    main()
