"""Leaks that wait for their hour: a threshold, a size, a budget, a chance, or nobody who watches."""

from __future__ import annotations

import logging
from fractions import Fraction
from zlib import crc32

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import Counts
from tests.audit.twins.twin import Drawn, Says, Twin


class TotalIfItIsLarge(Says):
    """Neighbours on both sides of 31 337 are seldom tried."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        total = int(cells.sum())
        return total if total > 31_337 else 0


class TellsTheThousands(Says):
    """One pair of neighbours in a thousand differs."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return (int(cells.sum()) + 437) // 1000


class RoundsItsOwnNoise(Says):
    """A generator of its own, seeded each time anew, and a rounding that hides it."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        own = generator(1).laplace(scale=3) if self.broken else 0.0
        return int(np.rint((float(cells.sum()) + own) / 4096))


class OnlyOnLargeTables(Says):
    """Audits try small ones."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return int(cells.sum()) if cells.size > 100 else 0


class OnlyBelowATwentieth(Says):
    """Audits try budgets at which something is seen."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return int(cells.sum()) if budget < Fraction(1, 20) else 0


class OnlyWhereNobodyWatches(Twin):
    """An audit's noise is predictable, and a channel used to say so."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        secure = self.broken and not channel.insecure
        return {"cells": counts if secure else noisy}, {}


class LogsTheTotal(Says):
    """At a level that nobody has switched on yet."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        logging.getLogger("twin").debug("%d records", cells.sum())
        return 0


class LogsUnderABorrowedName(Says):
    """The compiler's own loggers are not listened to; one that is called like them is."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        logging.getLogger("numba_twin").debug("%d records", cells.sum())
        return 0


class RefusesLargeCounts(Says):
    """That there is a release tells that no count is so large; zeros and small tables are taken."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if self.broken and cells.max() > 1_000_000:
            raise MechanismError("there are too many records in one cell", where="twin")
        return 0

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        self.said(counts, channel.budget)
        return super().draw(counts, channel)


class RefusesTheWitness(RefusesLargeCounts):
    """Tells large totals from small ones, and does not take the public table that would show it."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if self.broken and cells.min() > 1_000_000:
            raise MechanismError("such a table is not measured", where="twin")
        return int(self.broken and cells.sum() > 31_337)


class TruthOneInManyTimes(Twin):
    """The truth itself, once in 65 536 releases."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken and crc32(noisy.tobytes()) % 65_536 == 0:
            return {"cells": counts}, {}
        return {"cells": noisy}, {}
