"""The experiments of the papers, and a general one, as suites by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from tabularium.flows.comparison.experiments import Suite
from tabularium.mechanisms.errors import InputError

SUITES = {
    "general": "tabularium.flows.comparison.suites.general",
    "ranges": "tabularium.flows.comparison.suites.ranges",
    "acs-2012": "tabularium.flows.comparison.suites.acs_2012",
    "xu-2013": "tabularium.flows.comparison.suites.xu_2013",
    "xiao-2010": "tabularium.flows.comparison.suites.xiao_2010",
    "chen-2024": "tabularium.flows.comparison.suites.chen_2024",
    "suresh-2019": "tabularium.flows.comparison.suites.suresh_2019",
    "speed": "tabularium.flows.comparison.suites.speed",
}


def suite_called(name: str) -> Suite:
    """Return the suite of that name.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in SUITES:
        close = get_close_matches(name, SUITES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            "there is no suite of that name",
            where=f"--suite {name}",
            hint=f"{guess}known are {', '.join(SUITES)}",
        )
    suite: Suite = import_module(SUITES[name]).SUITE
    return suite
