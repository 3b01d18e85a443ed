"""The neighbour's run in another process: whatever the first run laid by, the second cannot know.

A replay in one process is blind to a memory that is keyed on noisy outputs: under forced outputs the
neighbour's run would be answered from the first run's memory, and look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from multiprocessing import get_context

import numpy as np

from mechanisms.accounting.transcript import Definition
from mechanisms.channel.replay.replay_audit import Replay, answer, compared, record
from mechanisms.mechanism import Mechanism
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
    """As ``replay``, with the neighbour's run in the pool's process."""
    first = record(mechanism, counts, budget, 0, definition=definition)
    second = pool.submit(answer, mechanism, neighbour, budget, first.draws, definition=definition).result()
    return compared(mechanism, first, second)


def pairs(case: Case) -> Iterator[tuple[Counts, Counts]]:
    """For each shape, some counts and the same with a record more; what is found out is in the data."""
    for shape in case.shapes:
        counts = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 5
        more = counts.copy()
        more.flat[-1] += 1
        yield counts, more
