"""Histograms: shares that leave something for the tables, parameters of privhist."""

from __future__ import annotations

from fractions import Fraction

from tabularium.validations.spec.checks.mechanism_checks import check_parameters
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.privacy_part import tallies_of
from tabularium.validations.spec.problems import Path

MECHANISM = "privhist"
_NOT_WRITTEN = ("form",)  # counting decides it


def check_histograms(draft: Draft) -> None:
    """Check the histograms that could be read, each by itself and all together."""
    total = _tallies(draft)
    if total >= 1:
        what = f"the shares of noisy rules and cut units add to {total}, and leave nothing for the tables"
        draft.add(("privacy",), what, "make them add to less than 1")
        return
    for place, histogram in draft.histograms:
        path: Path = ("histograms", place)
        check_parameters(draft, path, MECHANISM, histogram.parameters, unwritten=_NOT_WRITTEN)
        total += histogram.share
        if total >= 1:
            others = "histograms, noisy rules and cut units" if _tallies(draft) else "the histograms"
            what = f"the shares of {others} add to {total}, and leave nothing for the tables"
            draft.add((*path, "share"), what, "make them add to less than 1")
            return


def _tallies(draft: Draft) -> Fraction:
    """Return the part of the budget that noisy rules and the numbers of cut units take."""
    cut = None if draft.privacy is None else draft.privacy.cut_units
    return sum((each.share for each in tallies_of((rule for _, rule in draft.rules), cut)), Fraction())
