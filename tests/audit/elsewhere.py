"""A fresh interpreter, which has inherited nothing and is never told a table, finishes what was measured.

The processes of ``replay`` are forks: what a mechanism had seen before, they have too.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from multiprocessing import get_context

import numpy as np

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel.replay.replay_audit import answer, compared, record, without_data
from tabularium.mechanisms.channel.replay.replay_findings import Replay
from tabularium.mechanisms.mechanism import Mechanism
from tests.audit.cases import Case, Counts


@contextmanager
def another_process() -> Iterator[ProcessPoolExecutor]:
    """A fresh interpreter, which has inherited nothing."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


def replay_elsewhere(
    pool: ProcessPoolExecutor,
    mechanism: Mechanism,
    counts: Counts,
    neighbour: Counts,
    budget: Fraction,
    definition: Definition,
) -> Replay:
    """As ``replay``, with the runs that never see a table in the pool's process."""
    first = record(mechanism, counts, budget, 0, definition=definition)
    script = first.script()
    public = pool.submit(without_data, mechanism, neighbour.shape, budget, script, definition=definition)
    second = answer(mechanism, neighbour, budget, script, definition=definition)
    return compared(first, second, public.result())


def pairs(case: Case) -> Iterator[tuple[Counts, Counts]]:
    """For each shape, some counts and the same with a record more; what is found out is in the data."""
    for shape in case.shapes:
        counts = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 5
        more = counts.copy()
        more.flat[-1] += 1
        yield counts, more
