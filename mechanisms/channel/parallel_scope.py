"""Parallel composition over disjoint bins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.folded_branches import FoldedBranches
from tabularium.mechanisms.errors import MechanismError

Branch = TypeVar("Branch")


class Parallel(Generic[Branch]):
    """A scope over disjoint bins; opened by ``Channel.parallel``, whose branches are channels."""

    def __init__(
        self,
        cells: int,
        open_branch: Callable[[str, int], tuple[Branch, Meter]],
        where: str,
        folded: FoldedBranches | None = None,
    ) -> None:
        self._taken = np.zeros(cells, dtype=np.bool_)
        self._open_branch = open_branch
        self._where = where
        self._folded = folded
        self._meters: list[Meter] = []
        self._open = True
        self._lock = threading.Lock()

    def branch(self, bins: slice | ArrayLike, purpose: str = "") -> Branch:
        """Return a channel that may look at ``bins`` only, and spend up to the scope's amount.

        Parameters
        ----------
        bins
            A slice, a boolean mask of shape (cells,), or integer bin numbers: flat positions in the counts.
        purpose
            Default: the number of the branch.

        Raises
        ------
        MechanismError
            There are no bins, some are not bins of the scope or belong to another branch already, or the
            scope has ended; nothing was drawn.
        """
        with self._lock:
            name = purpose or f"branch {len(self._meters)}"
            where = f"{self._where}/{name}"
            if not self._open:
                raise MechanismError("the parallel scope has ended", where=where)
            self._take(bins, where)
            if self._folded is not None and self._meters:
                self._meters[-1].close()
            channel, meter = self._open_branch(name, len(self._meters))
            self._meters.append(meter)
            return channel

    def stand_ins(self) -> list[int]:
        """Return, of a folded scope that has closed, the number of the branch that stands for each."""
        return [] if self._folded is None else list(self._folded.stand_ins)

    def _take(self, bins: slice | ArrayLike, where: str) -> None:
        index = bins if isinstance(bins, slice) else np.asarray(bins)
        try:
            if isinstance(index, slice):
                self._check_ends(index)
            taken = self._taken[index]
        except (IndexError, TypeError):
            raise MechanismError(
                "the bins of a branch are not bins of its scope", where=where, hint="number bins from 0"
            ) from None
        if taken.size == 0:
            raise MechanismError(
                "a branch needs at least one bin", where=where, hint="open no branch for an empty part"
            )
        overlap = bool(taken.any())
        self._taken[index] = True
        if overlap:
            raise MechanismError(
                "the bins of this branch belong to another branch already",
                where=where,
                hint="give each branch its own bins, or draw in sequence",
            )

    def _check_ends(self, bins: slice) -> None:
        """Refuse a slice whose ends lie outside: NumPy would shorten it without a word."""
        cells = self._taken.size
        for end in (bins.start, bins.stop):
            if end is not None and not -cells <= end <= cells:
                raise IndexError

    def close(self) -> Fraction:
        """Close every branch; return what the dearest spent."""
        with self._lock:
            self._open = False
            for meter in self._meters:
                meter.close()
            return max((meter.spent for meter in self._meters), default=Fraction(0))
