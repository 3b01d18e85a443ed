"""Official statistics under differential privacy: publish tables, and read what was published.

>>> import tabularium as tb
>>> release = tb.open("releases/persons/2026/current")      # doctest: +SKIP
>>> frame = release["age_by_sex"].to_pandas()               # doctest: +SKIP

Names are imported when they are used: ``import tabularium`` itself takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabularium._answer import Answer as Answer
    from tabularium._books import Books as Books
    from tabularium._books import Charged as Charged
    from tabularium._books import Forecast as Forecast
    from tabularium._books import Point as Point
    from tabularium._books import open_ledger as open_ledger
    from tabularium._check import Check as Check
    from tabularium._check import check as check
    from tabularium._diff import Changes as Changes
    from tabularium._diff import SpecDiff as SpecDiff
    from tabularium._diff import diff as diff
    from tabularium._officer import Decided as Decided
    from tabularium._officer import Decision as Decision
    from tabularium._officer import NotAsShown as NotAsShown
    from tabularium._officer import Officer as Officer
    from tabularium._officer import officer as officer
    from tabularium._plan import Plan as Plan
    from tabularium._plan import plan as plan
    from tabularium._publish import publish as publish
    from tabularium._publish import rehearse as rehearse
    from tabularium._published import Published as Published
    from tabularium._release import Release as Release
    from tabularium._release import open as open
    from tabularium._research import Study as Study
    from tabularium._research import mechanism as mechanism
    from tabularium._series import Series as Series
    from tabularium._series import series as series
    from tabularium._site import Site as Site
    from tabularium._site import site as site
    from tabularium._spec import Spec as Spec
    from tabularium._spec import init as init
    from tabularium._spec import load as load
    from tabularium._table import Table as Table
    from tabularium._verdict import Verdict as Verdict
    from tabularium._verdict import verify as verify
    from tabularium.ledger.refusals import BudgetExhausted as BudgetExhausted
    from tabularium.ledger.refusals import NotApproved as NotApproved
    from tabularium.mechanisms.errors import DataRefused as DataRefused
    from tabularium.mechanisms.errors import SpecError as SpecError
    from tabularium.mechanisms.errors import TabulariumError as TabulariumError
    from tabularium.validations.certificate import Certificate as Certificate

_HOLDERS = {
    "tabularium._answer": ("Answer",),
    "tabularium._books": ("Books", "Charged", "Forecast", "Point", "open_ledger"),
    "tabularium._check": ("Check", "check"),
    "tabularium._diff": ("Changes", "SpecDiff", "diff"),
    "tabularium._officer": ("Decided", "Decision", "NotAsShown", "Officer", "officer"),
    "tabularium._plan": ("Plan", "plan"),
    "tabularium._publish": ("publish", "rehearse"),
    "tabularium._published": ("Published",),
    "tabularium._release": ("Release", "open"),
    "tabularium._research": ("Study", "mechanism"),
    "tabularium._series": ("Series", "series"),
    "tabularium._site": ("Site", "site"),
    "tabularium._spec": ("Spec", "init", "load"),
    "tabularium._table": ("Table",),
    "tabularium._verdict": ("Verdict", "verify"),
    "tabularium.ledger.refusals": ("BudgetExhausted", "NotApproved"),
    "tabularium.mechanisms.errors": ("DataRefused", "SpecError", "TabulariumError"),
    "tabularium.validations.certificate": ("Certificate",),
}
_HOLDER = {name: holder for holder, names in _HOLDERS.items() for name in names}

__all__ = sorted(_HOLDER)  # noqa: PLE0605 - of the names above


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _HOLDER:
        raise AttributeError(f"module 'tabularium' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOLDER[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
