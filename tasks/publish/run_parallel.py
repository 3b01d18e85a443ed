"""Work on the files of a release, on several processors: what is written does not depend on that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

MOST = 4
"""Pieces of work at once: each holds a part of a table in memory."""


@contextmanager
def threads(most: int = MOST) -> Iterator[ThreadPoolExecutor]:
    """Give threads, as many as there are processors but no more than that; end when their work has ended."""
    with ThreadPoolExecutor(max(1, min(MOST, len(os.sched_getaffinity(0)), most))) as pool:
        yield pool


def run_parallel(work: Sequence[Callable[[], Result]]) -> list[Result]:
    """Do all of it, in threads; return what each gave, in their order.

    The libraries that write and digest files let go of Python's lock meanwhile. What was raised first, in the
    order of the work, is raised, after all of it has ended.
    """
    with threads(len(work)) as pool:
        begun = [pool.submit(each) for each in work]
    return [each.result() for each in begun]
