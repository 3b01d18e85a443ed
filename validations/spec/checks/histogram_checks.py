"""Histograms: shares that leave something for the tables, parameters of privhist."""

from __future__ import annotations

from fractions import Fraction

from validations.spec.checks.mechanism_checks import check_parameters
from validations.spec.draft import Draft
from validations.spec.problems import Path

MECHANISM = "privhist"
_NOT_WRITTEN = ("form",)  # counting decides it


def check_histograms(draft: Draft) -> None:
    """Check the histograms that could be read, each by itself and all together."""
    total = Fraction()
    for place, histogram in draft.histograms:
        path: Path = ("histograms", place)
        check_parameters(draft, path, MECHANISM, histogram.parameters, unwritten=_NOT_WRITTEN)
        total += histogram.share
        if total >= 1:
            what = f"the shares of the histograms add to {total}, and leave nothing for the tables"
            draft.add((*path, "share"), what, "make them add to less than 1")
            return
