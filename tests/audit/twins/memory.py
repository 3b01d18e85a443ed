"""Mistakes that need a memory: what one run leaves for another, or for ``finish``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.measured import Measured, Release
from tests.audit.cases import Counts
from tests.audit.twins.twin import Drawn, Twin


@dataclass(frozen=True)
class PeekingFinish(Twin):
    """``finish`` uses counts that ``measure`` laid aside: here, to clip at the true maximum."""

    aside: dict[str, Any] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        return {"broken": self.broken}  # what was laid aside stays hidden

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if self.broken:
            self.aside["most"] = int(counts.max())
        return {"cells": channel.laplace(counts, channel.remaining, purpose="cells")}, {}

    def finish(self, measured: Measured) -> Release:
        release = super().finish(measured)
        values = (
            np.minimum(release.values, self.aside["most"]) if self.broken else np.maximum(release.values, 0)
        )
        return Release(values=values, transcript=release.transcript, insecure=release.insecure)


class RemembersTheFirst(Twin):
    """A cache that outlives the run: the neighbour's run shows the first run's bins."""

    seen: ClassVar[list[int]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken:
            self.seen.append(int(counts.sum()))
            noisy = noisy + self.seen[-1] % 7
        return {"cells": noisy}, {}


class RemembersTheFirstEver(Twin):
    """What every later release tells is of the first table alone: two runs in one process look the same."""

    first: ClassVar[list[int]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken and not self.first:
            self.first.append(int(counts.sum()))
        return {"cells": noisy}, {"first": self.first[0] if self.broken else 0}


class RemembersByTheNoise(Twin):
    """A cache whose key is what was drawn: forced to the same draws, a run in one process finds the first's."""

    seen: ClassVar[dict[tuple[bool, bytes], int]] = {}

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        total = self.seen.setdefault(
            (self.broken, noisy.tobytes()), int((counts if self.broken else noisy).sum())
        )
        return {"cells": noisy}, {"total": total}


class ReusesItsBuffer(Twin):
    """A scratch array that outlives the run is returned, true counts in it: the next run fills it anew."""

    scratch: ClassVar[dict[tuple[int, ...], Counts]] = {}

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        buffer = self.scratch.setdefault(counts.shape, np.zeros_like(counts))
        buffer[...] = counts if self.broken else noisy
        return {"cells": buffer}, {}


class SharesItsNotes(Twin):
    """The same with the dictionary of what is said about the release."""

    notes: ClassVar[dict[str, Any]] = {}

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        self.notes["total"] = int((counts if self.broken else noisy).sum())
        return {"cells": noisy}, self.notes
