"""A command, watched: wall and processor seconds, and memory, of its process and all below it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.05
"""Seconds between two looks."""


@dataclass(frozen=True)
class Watched:
    """What a command took and said.

    Attributes
    ----------
    seconds, processor_seconds
        On the clock; and of all cores, of every process as it was last seen.
    peak
        Bytes resident at most, in all its processes together.
    held
        Of what was resident, the most that belongs to no file: what the system cannot take back.
    code
        What it exited with; None when its time was over, and it was killed.
    output, complaint
        What it wrote to standard output, and to standard error.
    """

    seconds: float
    processor_seconds: float
    peak: int
    held: int
    code: int | None
    output: str
    complaint: str


def watch(
    command: list[str],
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    limit: float | None = None,
) -> Watched:
    """Run a command in a folder, for ``limit`` seconds at most."""
    start = time.perf_counter()
    peak, held, used = 0, 0, dict[int, float]()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        process = subprocess.Popen(command, stdout=said, stderr=complained, env=environment, cwd=folder)
        while (code := process.poll()) is None:
            if limit is not None and time.perf_counter() - start > limit:
                end(process)
                break
            found = dict(family(process.pid))
            peak = max(peak, sum(resident for resident, _, _ in found.values()))
            held = max(held, sum(own for _, own, _ in found.values()))
            used |= {pid: seconds for pid, (_, _, seconds) in found.items()}
            time.sleep(PAUSE)
        seconds = time.perf_counter() - start
        texts = []
        for stream in (said, complained):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Watched(seconds, sum(used.values()), peak, held, code, *texts)


def family(pid: int) -> Iterator[tuple[int, tuple[int, int, float]]]:
    """Yield the bytes resident in a process, those of no file, and its processor seconds; of each below too."""
    waiting = [pid]
    while waiting:
        one = Path(f"/proc/{waiting.pop()}")
        try:
            pages, of_files = (int(each) for each in (one / "statm").read_text().split()[1:3])
            fields = (one / "stat").read_text().rpartition(")")[2].split()
            waiting += [int(c) for c in (one / "task" / one.name / "children").read_text().split()]
        except (OSError, ValueError):
            continue
        ticks = int(fields[11]) + int(fields[12])
        page = os.sysconf("SC_PAGE_SIZE")
        own = (pages - of_files) * page
        yield int(one.name), (pages * page, own, ticks / os.sysconf("SC_CLK_TCK"))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all below it."""
    for pid, _ in list(family(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
