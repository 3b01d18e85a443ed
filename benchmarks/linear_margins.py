"""Margins of linear steps, beside the smallest that attain their level: cases of ``bench_margins linear``."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import (
    Estimate,
    Hierarchy,
    consistency,
    laplace_margin,
    laplace_variance,
    margins,
)
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import Made, replicates
from tabularium.mechanisms.inference.margins_of_error.simulation import linear_half
from tabularium.mechanisms.noise.synthetic import generator


def linear_cases(releases: int) -> Iterator[tuple[str, float, float, float, NDArray[np.float64]]]:
    """Yield name, margin, smallest sufficient one, its exact coverage, and the share held in each release."""
    for scale in (0.3, 0.7, 1.0, 3.0, 10.0, 100.0):
        noise = laplace(generator(int(10 * scale)), scale, (releases, 2000))
        half = margins(laplace_variance(scale), scale=scale).item()
        smallest = laplace_margin(scale)
        tail = 2 * math.exp(-(smallest + 1) / scale) / (1 + math.exp(-1 / scale))
        yield (
            f"one measurement, scale {scale:g}",
            half,
            smallest,
            1 - tail,
            (np.abs(noise) <= half).mean(axis=1),
        )
    tree = Hierarchy(np.r_[-1, np.zeros(4, int), 1 + np.arange(20) // 5])
    cells, runs = 40, replicates(25 * 40)
    for scale in (3.0, 30.0):
        large = _errors(tree, scale, 200_000, 5)
        halves, held = [], []
        for seed in range(releases):
            made = _errors(tree, scale, cells * runs, 100 + seed).values.reshape(25, runs, cells)
            errors = [Made(each, tree.parents) for each in made.swapaxes(0, 1)]
            half = linear_half(tree, large.variances, (25, cells), errors, level=0.9)
            fresh = _errors(tree, scale, cells, 10_000 + seed).values
            halves.append(half[:, 0])
            held.append((np.abs(fresh) <= half).mean(axis=1))
        for nodes, level in ((range(1), "nation"), (range(1, 5), "regions"), (range(5, 25), "places")):
            # The law of a weighted sum: its quantile over many draws, and the share that it holds.
            deviations = np.abs(large.values[list(nodes)])
            smallest = float(np.quantile(deviations, 0.9, method="inverted_cdf"))
            share = np.array(held)[:, list(nodes)].mean(axis=1)
            margin = float(np.array(halves)[:, list(nodes)].mean())
            yield (
                f"three levels, scale {scale:g}, {level}",
                margin,
                smallest,
                float((deviations <= smallest).mean()),
                share,
            )


def _errors(tree: Hierarchy, scale: float, runs: int, seed: int) -> Estimate:
    return consistency(tree, laplace(generator(seed), scale, (tree.nodes, runs)), laplace_variance(scale))


def laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return discrete Laplace noise."""
    decay = -math.expm1(-1 / scale)
    return (rng.geometric(decay, size=shape) - rng.geometric(decay, size=shape)).astype(float)
