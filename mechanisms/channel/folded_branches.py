"""A parallel scope of very many branches: in the transcript one stands for all that drew the same."""

from __future__ import annotations

from dataclasses import replace

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel.shared_transcript import SharedTranscript

Kind = tuple[Event, ...]


class FoldedBranches:
    """Folds the branches of one scope as they end; they run one after another.

    What a branch drew is the sequence of its events, but for its own name and number. Nothing that is
    accounted for is lost: a scope costs its dearest branch. Which branches are alike follows from their
    events, as public as these.

    Parameters
    ----------
    path
        Of the scope. The next part of a purpose is the name of the branch.
    depth
        How many scopes there are around it.

    Attributes
    ----------
    stand_ins
        The number of the branch that stands for each that has ended.
    """

    def __init__(self, transcript: SharedTranscript, path: str, depth: int) -> None:
        transcript.begin_folding(path)
        self._transcript = transcript
        self._path, self._depth = path, depth
        self._begun = len(transcript.events)
        self._name: str | None = None
        self.stand_ins: list[int] = []
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
        prefix, number = f"{self._path}/{self._name}/", len(self.stand_ins)
        if all(event.purpose.startswith(prefix) for event in events[own]):
            kind = _nameless(events[own], len(prefix), self._depth)
            first, alike, number = self._kinds.get(kind, (own, 0, number))
            self._kinds[kind] = first, alike + 1, number
            if alike:
                self._transcript.drop(self._begun, prefix)
        self.stand_ins.append(number)
        self._begun = len(events)

    def close(self) -> None:
        """End the last branch, and write down how many each that was kept stands for."""
        self._end()
        for first, alike, _ in self._kinds.values():
            if alike > 1:
                self._transcript.stand_for(first, alike)
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
