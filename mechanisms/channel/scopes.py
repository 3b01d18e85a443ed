"""Parallel composition over disjoint bins, and the transcript that the channels of a release share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel.budget_meter import Meter
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

    def representatives(self) -> list[int]:
        """Return, of a folded scope that has closed, the number of the branch that stands for each."""
        return [] if self._folded is None else list(self._folded.representatives)

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


Kind = tuple[Event, ...]


class FoldedBranches:
    """Folds the branches of one scope as they end; they run one after another.

    What a branch drew is the sequence of its events, but for its own name and number. Nothing that is
    accounted for is lost: a scope costs its dearest branch. Which branches are alike follows from their
    events, as public as these.

    ``path``: Of the scope. The next part of a purpose is the name of the branch. ``depth``: How many scopes
    there are around it.

    ``representatives``: The number of the branch that stands for each that has ended.
    """

    def __init__(self, transcript: SharedTranscript, path: str, depth: int) -> None:
        transcript.begin_folding(path)
        self._transcript = transcript
        self._path, self._depth = path, depth
        self._begun = len(transcript.events)
        self._name: str | None = None
        self.representatives: list[int] = []
        self._kinds: dict[Kind, tuple[slice, int, int]] = {}

    def begin(self, name: str) -> None:
        """Begin a branch, which ends the one before it."""
        self._end()
        self._name = name

    def _end(self) -> None:
        """Keep what the last branch drew, or count it with one that drew the same."""
        events = self._transcript.events
        own = slice(self._begun, len(events))
        if self._name is None:
            return
        prefix, number = f"{self._path}/{self._name}/", len(self.representatives)
        if all(event.purpose.startswith(prefix) for event in events[own]):
            kind = _nameless(events[own], len(prefix), self._depth)
            first, alike, number = self._kinds.get(kind, (own, 0, number))
            self._kinds[kind] = first, alike + 1, number
            if alike:
                self._transcript.drop(self._begun, prefix)
        self.representatives.append(number)
        self._begun = len(events)

    def close(self) -> None:
        """End the last branch, and write down how many each that was kept stands for."""
        self._end()
        for first, alike, _ in self._kinds.values():
            if alike > 1:
                self._transcript.mark_repeated(first, alike)
        self._transcript.end_folding()


def _nameless(events: list[Event], prefix: int, depth: int) -> Kind:
    """Return events without what tells branches that drew the same apart."""
    inner: dict[str, str] = {}  # scopes are numbered through: here, from the first of the branch
    return tuple(
        replace(
            event,
            purpose=event.purpose[prefix:],
            branches=tuple(
                (inner.setdefault(scope, str(len(inner))), branch)
                for scope, branch in event.branches[depth + 1 :]
            ),
        )
        for event in events
    )


class SharedTranscript:
    """An append-only list of events, safe to write from several threads."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.events: list[Event] = []
        self._scopes = 0
        self._dropped: list[int] = []
        self._folding = False
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        """Append one event."""
        with self._lock:
            self.events.append(event)

    def place(self) -> tuple[int, int]:
        """Return where the next event will stand, and how often events have been dropped: for ``since``."""
        with self._lock:
            return len(self.events), len(self._dropped)

    def since(self, place: tuple[int, int]) -> list[Event]:
        """Return the events from a place on; where some before it have been dropped, a few more."""
        with self._lock:
            return self.events[min(place[0], *self._dropped[place[1] :], len(self.events)) :]

    def drop(self, start: int, prefix: str) -> None:
        """Forget the events from a place on, all of one branch, because another branch stands for them.

        An event of something else would be kept, and all with it.
        """
        with self._lock:
            if all(event.purpose.startswith(prefix) for event in self.events[start:]):
                del self.events[start:]
                self._dropped.append(start)

    def begin_folding(self, path: str) -> None:
        """Note that a folded scope is open: there is one at a time, as it counts on the order of events."""
        with self._lock:
            if self._folding:
                raise MechanismError(
                    "a folded scope is open already", where=path, hint="open it after that one has ended"
                )
            self._folding = True

    def end_folding(self) -> None:
        """Note that it has ended."""
        with self._lock:
            self._folding = False

    def mark_repeated(self, places: slice, alike: int) -> None:
        """Note of some events how many branches drew them in the same way."""
        with self._lock:
            self.events[places] = [replace(event, alike=event.alike * alike) for event in self.events[places]]

    def open_scope(self) -> str:
        """Return the name of a new parallel scope.

        The label of the noise's source is part of it: the transcripts of several releases can be joined, and
        scopes of two releases are never taken for one.
        """
        with self._lock:
            self._scopes += 1
            return f"{self._label}.{self._scopes - 1}"
