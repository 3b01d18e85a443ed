"""Suites judged in a few lines, for tests of other things: Great Expectations takes a third of a small release.

At full size the library judges. ``tests/validations/suites`` tests it at any size, and that these lines say
the same. Processes that tests start judge in the same way, unless their environment says ``BY_THE_LIBRARY``: two
commands as users type them do, and the runs that are searched for leaks.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from tabularium.validations.suites import expectations as suite_process
from tabularium.validations.suites import gx_engine
from tabularium.validations.suites.gx_engine import Bound, Expected, Number

LIBRARY = gx_engine.run_suite
BY_THE_LIBRARY = {"TABULARIUM_TEST_SUITES": "library"}
CUSTOMS = Path(__file__).parent / "flows" / "operations" / "halting"


def judge_here(*, plainly: bool) -> None:
    """Let this process judge its suites itself, by the library or in these lines; before a flow is imported."""
    suite_process.suites_apart = nullcontext
    if plainly:
        gx_engine.run_suite = plain


def judge_plainly_in_children() -> None:
    """Have the processes that this one starts judge in these lines too."""
    there = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(CUSTOMS), there]))
    os.environ["TABULARIUM_TEST_SUITES"] = "plain"


def plain(
    name: str, numbers: Mapping[str, Sequence[Number]], expected: Sequence[Expected]
) -> tuple[list[bool], str]:
    """Judge a suite: as :func:`tabularium.validations.suites.gx_engine.run_suite`."""
    verdicts = [_holds(each, numbers[each.column]) for each in expected]
    return verdicts, json.dumps({"suite_name": name, "results": [{"success": each} for each in verdicts]})


def _holds(expected: Expected, numbers: Sequence[Number]) -> bool:
    there = [each for each in numbers if each is not None and not math.isnan(each)]
    if isinstance(expected, Bound):
        low = -math.inf if expected.low is None else expected.low
        high = math.inf if expected.high is None else expected.high
        return all(low <= each <= high for each in there)
    return len(set(there)) <= 1
