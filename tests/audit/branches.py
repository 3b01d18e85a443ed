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
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.facade import facade
from tabularium.mechanisms.channel.metered_channel import Channel, ScopePath
from tabularium.mechanisms.channel.replay.scripted_sources import Recorder
from tabularium.mechanisms.mechanism import Mechanism
from tests.audit.cases import Case
from tests.audit.replays import BUDGETS, FORCES, edge_pairs, unrelated_pairs

ROOT = Path(__file__).parents[2]
WATCHED = (str(ROOT / "tabularium" / "mechanisms" / "histograms"), str(ROOT / "tests" / "audit" / "twins"))


@dataclass
class Steps:
    """The steps from instruction to instruction that have been taken, for each code object."""

    taken: dict[CodeType, set[tuple[int, int]]] = field(default_factory=dict)

    def watch(self, run: Callable[[], Any]) -> None:
        """Run, and keep the steps."""
        sys.settrace(self._entered)
        try:
            run()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(WATCHED):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken, last = self.taken.setdefault(frame.f_code, set()), -1

        def step(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            nonlocal last
            if event == "opcode":
                taken.add((last, frame.f_lasti))
                last = frame.f_lasti
            return step

        return step

    def untaken(self) -> Iterator[str]:
        """Yield each branch that was never taken, as its function and the text of the condition's line."""
        for code, taken in self.taken.items():
            path = Path(code.co_filename)
            instructions = list(dis.get_instructions(code))
            reached = {to for _, to in taken}
            for number, jump in enumerate(instructions):
                if "JUMP" not in jump.opname or "_IF_" not in jump.opname or jump.offset not in reached:
                    continue
                for to in (instructions[number + 1].offset, jump.argval):
                    if (jump.offset, to) not in taken:
                        line = jump.positions.lineno if jump.positions and jump.positions.lineno else 0
                        text = path.read_text().splitlines()[line - 1].strip()
                        yield f"{code.co_qualname.partition('.<locals>.<')[0]}: {text}"


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
