"""The experiments of the papers, and a general one, as suites by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from tabularium.lab.comparison.experiments import Suite
from tabularium.mechanisms.errors import InputError

SUITES = {
    "general": "tabularium.lab.comparison.suites.general",
    "ranges": "tabularium.lab.comparison.suites.ranges",
    "acs-2012": "tabularium.lab.comparison.suites.acs_2012",
    "xu-2013": "tabularium.lab.comparison.suites.xu_2013",
    "xiao-2010": "tabularium.lab.comparison.suites.xiao_2010",
    "chen-2024": "tabularium.lab.comparison.suites.chen_2024",
    "suresh-2019": "tabularium.lab.comparison.suites.suresh_2019",
    "speed": "tabularium.lab.comparison.suites.speed",
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
