"""Noise against its peers: draws per second of the secure samplers, of OpenDP, and of NumPy (insecure).

    python -m benchmarks.bench_noise [--draws N ...] [--peer-draws 200000] [--runs 1] [--json]

One core, one process, processor time, each sampler adding noise to zeros. OpenDP's time is proportional
to the number of draws, so it is measured on fewer (``--peer-draws``). NumPy's generator stands for the floor:
it is neither secure nor exact. Needs the ``bench`` extra (opendp); without it the peer's columns are empty.
The last lines give the peak memory of a fresh process that draws ten million.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tabularium.mechanisms.channel import SecureChannel
from tabularium.mechanisms.noise.synthetic import generator

SCALES = {
    "laplace": [Fraction(1), Fraction(10), Fraction(100), Fraction(1000, 3)],
    "gaussian": [Fraction(1), Fraction(10), Fraction(100), Fraction(1000, 3)],
}
Work = Callable[[], Any]


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--peer-draws", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=1, help="the median of this many")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peak", choices=sorted(SCALES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak_memory(options.peak, max(options.draws)))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = list(measured(options.draws, options.peer_draws, options.runs))
    memory = {kind: fresh_peak(kind, max(options.draws)) for kind in SCALES}
    if options.json:
        print(json.dumps({"rows": rows, "peak_mb": memory, "draws": max(options.draws)}))
        return
    print(
        f"{'noise':<10}{'scale':>8}{'draws':>12}{'ours ns':>10}"
        f"{'OpenDP ns':>12}{'NumPy ns':>10}{'x OpenDP':>10}"
    )
    for row in rows:
        peer = f"{row['opendp_ns']:.0f}" if row["opendp_ns"] else "-"
        times = f"{row['times_opendp']:.0f}" if row["times_opendp"] else "-"
        print(
            f"{row['noise']:<10}{row['scale']:>8}{row['draws']:>12,}{row['ours_ns']:>10.1f}"
            f"{peer:>12}{row['numpy_ns']:>10.1f}{times:>10}"
        )
    for kind, megabytes in memory.items():
        print(f"peak memory of {max(options.draws):,} {kind} draws: {megabytes} MB")


def measured(draws: list[int], peer_draws: int, runs: int) -> Any:
    """Yield one row for each kind of noise, scale and number of draws."""
    for kind, scales in SCALES.items():
        for scale in scales:
            peer = opendp(kind, float(scale), peer_draws)
            peer_ns = nanoseconds(peer, peer_draws, runs) if peer else None
            for count in draws:
                ours_ns = nanoseconds(ours(kind, scale, count), count, runs)
                yield {
                    "noise": kind,
                    "scale": str(scale),
                    "draws": count,
                    "ours_ns": ours_ns,
                    "opendp_ns": peer_ns,
                    "numpy_ns": nanoseconds(numpy(kind, float(scale), count), count, runs),
                    "times_opendp": peer_ns / ours_ns if peer_ns else None,
                }


def nanoseconds(work: Work, count: int, runs: int) -> float:
    """Processor time of one draw: the median of ``runs``, after one small warm-up by the caller's setup."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return median(times) / count * 1e9


def ours(kind: str, scale: Fraction, count: int) -> Work:
    """A secure channel, opened, used once for ``count`` draws: key set-up and tables included."""
    zeros = np.zeros(count, dtype=np.int64)
    if kind == "laplace":
        return lambda: SecureChannel(1 / scale).laplace(zeros, 1 / scale, purpose="bench")
    rho = 1 / (2 * scale**2)
    return lambda: SecureChannel(rho, definition="zcdp").gaussian(zeros, rho, purpose="bench")


def numpy(kind: str, scale: float, count: int) -> Work:
    """NumPy's own distributions: insecure, and not exact."""
    rng = generator(1)
    zeros = np.zeros(count, dtype=np.int64)
    if kind == "gaussian":
        return lambda: zeros + np.rint(rng.normal(0, scale, count)).astype(np.int64)
    success = -np.expm1(-1 / scale)
    return lambda: zeros + rng.geometric(success, count) - rng.geometric(success, count)


def opendp(kind: str, scale: float, count: int) -> Work | None:
    """OpenDP's measurement on a list of integers, ready to be called; None when it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "laplace":
        measurement = (domain, dp.l1_distance(T=int)) >> dp.m.then_laplace(scale=scale)
    else:
        measurement = (domain, dp.l2_distance(T=float)) >> dp.m.then_gaussian(scale=scale)
    zeros = [0] * count
    measurement(zeros[:100])
    return lambda: measurement(zeros)


def peak_memory(kind: str, count: int) -> int:
    """Peak resident memory of this process in MB, after ``count`` draws."""
    ours(kind, Fraction(100), count)()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def fresh_peak(kind: str, count: int) -> int | None:
    """The same, in a process of its own; None where the system does not tell."""
    if not Path("/proc/self/status").exists():
        return None
    command = [sys.executable, "-m", "benchmarks.bench_noise", "--peak", kind, "--draws", str(count)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
