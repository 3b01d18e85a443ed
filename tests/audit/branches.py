"""Which branches of a mechanism's ``draw`` no audited run has taken: where a rare leak would hide.

A replay sees what a run does, not what it might have done: the truth, published once in 65 536 releases, is
published in no audit. But it stands in a branch of the program. So every conditional jump of the Python code that
``draw`` runs through must be taken both ways, in runs that the replay audit has made or could make.

Not seen: conditions inside NumPy and compiled kernels, and arithmetic without a branch (``counts * (hit == 0)``).
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.metered_channel import Channel, ScopePath, facade
from tabularium.mechanisms.channel.replay.replay_audit import Recorder
from tabularium.mechanisms.mechanism import Mechanism
from tests.audit.cases import Case
from tests.audit.replays import BUDGETS, FORCES, edge_pairs, unrelated_pairs

ROOT = Path(__file__).parents[2]
WATCHED = (str(ROOT / "tabularium" / "mechanisms" / "histograms"), str(ROOT / "tests" / "audit" / "twins"))


@dataclass
class Steps:
    """What has been reached of each code object, and the branches of it that are still to be taken."""

    reached: dict[CodeType, set[int]] = field(default_factory=dict)
    open: dict[CodeType, dict[tuple[int, int], int]] = field(default_factory=dict)

    def watch(self, run: Callable[[], Any]) -> None:
        """Run, and strike out the branches that it takes."""
        sys.settrace(self._entered)
        try:
            run()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code, last = frame.f_code, -1
        if not code.co_filename.startswith(WATCHED):
            return None
        if code not in self.open:
            self.open[code], self.reached[code] = branches(code), set()
        still_open, reached = self.open[code], self.reached[code]
        if not still_open:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def step(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            nonlocal last
            if event == "opcode":
                still_open.pop((last, frame.f_lasti), None)
                last = frame.f_lasti
                reached.add(last)
            return step

        return step

    def untaken(self) -> Iterator[str]:
        """Yield each branch that was never taken, as its function and the text of the condition's line."""
        for code, still_open in self.open.items():
            lines = Path(code.co_filename).read_text().splitlines()
            for (jump, _), line in still_open.items():
                if jump in self.reached[code]:
                    yield f"{code.co_qualname.partition('.<locals>.<')[0]}: {lines[line - 1].strip()}"


def branches(code: CodeType) -> dict[tuple[int, int], int]:
    """Return both ways on from every conditional jump, each with the line of its condition."""
    instructions = list(dis.get_instructions(code))
    return {
        (jump.offset, to): (jump.positions and jump.positions.lineno) or 0
        for jump, after in pairwise(instructions)
        if "JUMP" in jump.opname and "_IF_" in jump.opname
        for to in (after.offset, jump.argval)
    }


def untaken_branches(runs: list[tuple[Mechanism, Definition]], case: Case) -> set[str]:
    """Return the branches that no run of any of these forms of one mechanism takes."""
    steps = Steps()
    for turn, (mechanism, definition) in enumerate(runs):
        tables = [counts for counts, _ in (*list(edge_pairs(case))[turn % 5 :: 14], *unrelated_pairs(case))]
        for number, counts in enumerate(tables):
            force = list(FORCES.values())[number % len(FORCES)]
            budget = BUDGETS[number % len(BUDGETS)]
            steps.watch(_drawing(mechanism, counts, budget, definition, Recorder(str(number), force)))
    return set(steps.untaken())


def _drawing(
    mechanism: Mechanism, counts: np.ndarray, budget: Fraction, definition: Definition, source: Recorder
) -> Callable[[], Any]:
    channel = facade(Channel(Meter(budget), source, definition, place=ScopePath()))
    validated = mechanism.validated(counts)
    return lambda: mechanism.draw(validated, channel)
