"""Histograms: names of their own, shares that leave something for the tables, parameters of privhist."""

from __future__ import annotations

from fractions import Fraction

from mechanisms.errors import MechanismError
from validations.spec.draft import Draft
from validations.spec.mechanism_listing import parameters_of
from validations.spec.model import Histogram
from validations.spec.problems import Path, choose, quoted

MECHANISM = "privhist"
_NOT_WRITTEN = ("form",)  # what counting hands over is its own affair


def check_histograms(draft: Draft) -> None:
    """Check the histograms that could be read, each by itself and all together."""
    first = {table.name: ("table", place) for place, table in reversed(draft.tables)}
    total = Fraction()
    for place, histogram in draft.histograms:
        path: Path = ("histograms", place)
        kind, number = first.setdefault(histogram.name, ("histogram", place))
        if (kind, number) != ("histogram", place):
            what = f"{kind} {number + 1} has this name too"
            draft.add((*path, "name"), what, "give every table and histogram its own name")
        _check_parameters(draft, path, histogram)
        total += histogram.share
        if total >= 1:
            what = f"the shares of the histograms add to {total}, and leave nothing for the tables"
            draft.add((*path, "share"), what, "make them add to less than 1")
            return


def _check_parameters(draft: Draft, path: Path, histogram: Histogram) -> None:
    from mechanisms import MECHANISMS, build

    path = (*path, "parameters")
    known = [each.name for each in parameters_of(MECHANISMS[MECHANISM]) if each.name not in _NOT_WRITTEN]
    before = draft.count()
    for name in histogram.parameters:
        if name not in known:
            what = f"{MECHANISM} has no parameter {quoted(name)} here"
            draft.add((*path, name), what, choose(name, known, "parameters"))
    if draft.count() > before:
        return
    try:
        build(MECHANISM, **histogram.parameters)
    except MechanismError as error:
        draft.add((*path, error.where), error.what, error.mend)
