"""Plots drawn once: whoever verifies a release draws its report again, which takes a third of the time."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tabularium.tasks.report.accuracy import AccuracyLine
from tabularium.tasks.report.accuracy_plots import Plot, plots_of


@lru_cache(maxsize=1000)
def _plots(title: str, lines: tuple[AccuracyLine, ...], prefix: str) -> tuple[Plot, ...]:
    return tuple(plots_of(title, list(lines), prefix))


def keep_plots(patch: pytest.MonkeyPatch) -> None:
    """Let the plots of a report be those that were drawn before from the same numbers."""
    patch.setattr(
        "tabularium.tasks.report.report.plots_of",
        lambda title, lines, prefix: list(_plots(title, tuple(lines), prefix)),
    )
