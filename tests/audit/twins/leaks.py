"""Mistakes beside the draws: errors, warnings, names, types and other things that follow the data."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.measured import Measured, Release
from tests.audit.cases import Case, Counts
from tests.audit.twins.twin import Drawn, Says, Twin, small


class NoiseOfItsOwn(Twin):
    """Noise from a generator of its own, besides the channel's."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        extra = np.random.default_rng().laplace(size=counts.shape) if self.broken else np.zeros(counts.shape)
        return {"cells": noisy + (counts + extra if self.broken else extra)}, {}


class TrueTotalInTheDiagnostics(Says):
    """The release is private; what is said about it is not."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return int(cells.sum())


class RaisesOnTheData(Says):
    """An error that only some data sets cause tells which they are."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if self.broken and cells.max() > 2:
            raise ValueError("a count is too large")
        return 0


class WarnsAboutTheData(Says):
    """Nothing is different but what a log would hold."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if cells.max() > 2:
            warnings.warn("a count is large", stacklevel=1)
        return 0


class OrderInMemory(Twin):
    """The release is laid out by columns or by rows, as the largest true count will have it."""

    case: ClassVar[Case] = small((2, 3), (3, 2))
    columns: ClassVar[list[bool]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        self.columns[:] = [bool((counts if self.broken else noisy).max() > 2)]
        return {"cells": noisy}, {}

    def finish(self, measured: Measured) -> Release:
        release = super().finish(measured)
        columns = self.columns[0] if self.broken else bool(release.values.max() > 2)
        return replace(release, values=np.asarray(release.values, order="F" if columns else "C"))


class SaysItInThePurpose(Twin):
    """The transcript is published: a number in a purpose is published too."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        purpose = f"{counts.sum()} records" if self.broken else "all records"
        return {"cells": channel.laplace(counts, channel.remaining, purpose=purpose)}, {}


class WidthOfTheInteger(Twin):
    """The numbers are private; the type they are stored in follows the largest true count."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        wide = (counts if self.broken else noisy).max() > 100
        return {"cells": noisy.astype(np.int64 if wide else np.int32)}, {}


class SwallowsEverything(Twin):
    """Draws again for nothing, and hides every complaint."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining / 2, purpose="cells")
        try:
            bound = 1 + int(counts.max()) if self.broken else 1
            channel.laplace(counts, channel.remaining, sensitivity=bound, purpose="again")
        except BaseException:
            pass
        return {"cells": noisy}, {}
