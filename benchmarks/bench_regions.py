"""Seconds and errors of many small tables, each with a mechanism of its own.

``python -m benchmarks.bench_regions [--regions N] [--cells N] [--epsilon E] [--mechanism NAME]``

Regions are made up: of different sizes, with a common course over the cells, and a few peaks. Prints the
seconds of drawing and of finishing, processor seconds, the mean absolute error beside that of noise on every
cell, the size of the transcript, and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.noise.synthetic import generator


def regions_of(regions: int, cells: int) -> NDArray[np.int64]:
    """Return counts of made-up regions, (regions, cells): from nobody to some tens of thousands each."""
    rng = generator(1)
    sizes = rng.gamma(0.5, 40, (regions, 1))
    course = np.exp(-3 * np.arange(cells) / cells)
    peaks = np.where(rng.random((regions, cells)) < 0.03, 8, 1)
    return rng.poisson(sizes * course * peaks).astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regions", type=int, default=10_000)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--epsilon", default="1/10")
    parser.add_argument("--mechanism", default="denoise")
    asked = parser.parse_args()
    counts = regions_of(asked.regions, asked.cells)
    mechanism = build("per_region", mechanism=asked.mechanism)
    channel = SeededChannel(Fraction(asked.epsilon), seed=1)
    mechanism.release(counts[:2], SeededChannel(Fraction(asked.epsilon), seed=0))  # compiles what is compiled
    start, processor = time.perf_counter(), time.process_time()
    measured = mechanism.measure(counts, channel)
    drawn = time.perf_counter()
    release = mechanism.finish(measured)
    finished = time.perf_counter()
    error = np.abs(release.values - counts).mean()
    plain = np.abs(
        build("identity").release(counts, SeededChannel(Fraction(asked.epsilon), seed=1)).values - counts
    )
    print(f"{asked.mechanism} of {asked.regions} x {asked.cells} at epsilon {asked.epsilon}")
    print(f"  draw {drawn - start:.1f} s, finish {finished - drawn:.1f} s", end=", ")
    print(f"processor {time.process_time() - processor:.1f} s")
    print(f"  mean |error| {error:.4g}, of noise on every cell {plain.mean():.4g}")
    written = json.dumps([event.as_dict() for event in measured.transcript])
    print(f"  transcript {len(measured.transcript)} events, {len(written)} bytes")
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
