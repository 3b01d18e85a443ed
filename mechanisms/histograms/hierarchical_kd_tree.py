"""hierarchical_kd_tree: a kd-tree whose medians are asked of the data, level by level.

Sensitivity and privacy: boxes of a level, and slices of a box, are disjoint. One record changes the count of
one slice of one box by 1, so noisy slice counts of a whole level cost its ε_l; the score -|2L - C| of a
private median changes by exactly 1, in one box, so all choices of a level cost ε_l. Which boxes come next
follows from outputs. The final boxes are disjoint: their sums cost the rest.

O(n·d) time, O(n) memory. Source: Xiao, Xiong, Yuan 2010, section 5.3; private medians after Cormode and
others 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.kd_boxes import (
    box_sizes,
    box_sums,
    boxes_of_cells,
    fill_boxes,
    line_sums,
)
from tabularium.mechanisms.histograms.kd_tree import sides, within_sums
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, whole_number
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in

MOST_LEVELS = 64
DEFAULT_LEVELS = 8
Corners = NDArray[np.int32]


@dataclass(frozen=True)
class HierarchicalKdTree(Mechanism):
    """Private medians down to a height, then one noisy sum per box.

    Parameters
    ----------
    height
        Number of levels of cuts, 0 to 64; at most 2^height boxes.
    structure
        Share of the budget for the cuts, divided equally among the levels.
    medians
        ``"noisy"``: from noisy counts of the slices of a box, as in the paper. ``"chosen"``: by a private
        choice among the places to cut.
    """

    height: int = DEFAULT_LEVELS
    structure: Fraction = Fraction(1, 2)
    medians: Literal["noisy", "chosen"] = "noisy"

    name: ClassVar[str] = "hierarchical_kd_tree"

    def __post_init__(self) -> None:
        whole_number(self.height, 0, MOST_LEVELS, "height")
        object.__setattr__(self, "structure", share_of_budget(self.structure, "structure"))
        one_of(self.medians, ("noisy", "chosen"), "medians")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Cut all boxes, level by level, and measure those of the last level."""
        cells, shape = within_sums(counts).reshape(-1), sides(counts.shape)
        amount = channel.remaining * self.structure / max(self.height, 1)
        lows, highs = np.zeros((1, shape.size), np.int32), shape.astype(np.int32)[None, :]
        cut_per_level = []
        for level in range(1, self.height + 1):
            axes = np.argmax(highs - lows, axis=1)
            rows = np.arange(axes.size)
            cut = np.flatnonzero(highs[rows, axes] - lows[rows, axes] > 1)
            if not cut.size:
                break
            chosen = axes[cut]
            widths = (highs - lows)[cut, chosen].astype(np.int64)
            middles = self._medians(
                cells, shape, (lows[cut], highs[cut]), chosen, widths, level, amount, channel
            )
            lows, highs = _cut(lows, highs, cut, chosen, lows[cut, chosen] + middles)
            cut_per_level.append(int(cut.size))
        sums = channel.add_noise(box_sums(cells, shape, lows, highs), channel.remaining, purpose="sums")
        meta = {"shape": list(counts.shape), "cuts_per_level": cut_per_level}
        return {"sums": sums, "lows": lows, "highs": highs}, meta

    def finish(self, measured: Measured) -> Release:
        """Return the cells of the boxes, float64, in the shape of the counts."""
        shape = tuple(measured.meta["shape"])
        sums, lows, highs = (measured.arrays[key] for key in ("sums", "lows", "highs"))
        sizes = box_sizes(lows, highs)
        values = np.empty(int(np.prod(sides(shape))))
        fill_boxes(sums / sizes, sides(shape), lows, highs, values)
        return measured.release(
            values.reshape(shape),
            parts=int(sizes.size),
            largest_part=int(sizes.max()),
            cuts_per_level=measured.meta["cuts_per_level"],
            scale_sums=float(measured.transcript[-1].scale),
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy sums of the last level's boxes, which were chosen before they were drawn."""
        noise = noise_in(measured.transcript[-1])
        return NoisyTree.flat(boxes_of_cells(measured), measured.arrays["sums"], noise)

    def _medians(
        self,
        cells: Counts,
        shape: Counts,
        boxes: tuple[Corners, Corners],
        axes: NDArray[np.intp],
        widths: Counts,
        level: int,
        amount: Fraction,
        channel: Channel,
    ) -> Counts:
        """Return how many slices of each box go to its left side, at least one and not all."""
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
        lines = line_sums(cells, shape, *boxes, axes, starts)
        purpose = f"level {level}"
        if self.medians == "noisy":
            scores, firsts = _evenness(channel.add_noise(lines, amount, purpose=purpose), starts)
            return 1 + _best(scores, firsts)
        scores, firsts = _evenness(lines, starts)
        return 1 + channel.pick_each(scores, firsts, channel.pure_epsilon(amount), purpose=purpose)


def _evenness(lines: Counts, starts: Counts) -> tuple[Counts, Counts]:
    """Return -|2L - C| of every place between two slices of a box, and where the places of each box begin.

    Sums are at most 2^60, their doubles 2^61; noise that no run would draw could wrap, which is harmless.
    """
    firsts, widths = starts[:-1], np.diff(starts)
    before = np.cumsum(lines) - lines
    whole = np.add.reduceat(lines, firsts)
    left = before + lines - np.repeat(before[firsts], widths)
    scores = -np.abs(2 * left - np.repeat(whole, widths))
    places = np.ones(lines.size, dtype=np.bool_)
    places[starts[1:] - 1] = False  # after the last slice is no place to cut
    return scores[places], firsts - np.arange(firsts.size)


def _best(scores: Counts, firsts: Counts) -> Counts:
    """Return the first best place of each group."""
    widths = np.diff(firsts, append=scores.size)
    best = np.flatnonzero(scores == np.repeat(np.maximum.reduceat(scores, firsts), widths))
    return np.asarray(best[np.searchsorted(best, firsts)] - firsts, dtype=np.int64)


def _cut(
    lows: Corners, highs: Corners, cut: NDArray[np.intp], axes: NDArray[np.intp], middles: Counts
) -> tuple[Corners, Corners]:
    """Return the boxes with some of them cut, each left side in its place and the right one after it."""
    copies = np.ones(lows.shape[0], np.int64)
    copies[cut] = 2
    left = (np.cumsum(copies) - copies)[cut]
    lows, highs = np.repeat(lows, copies, axis=0), np.repeat(highs, copies, axis=0)
    highs[left, axes] = middles
    lows[left + 1, axes] = middles
    return lows, highs
