"""The exact budget of a channel."""

from __future__ import annotations

import os
import threading
from fractions import Fraction

from tabularium.mechanisms.errors import BudgetExceeded, MechanismError


class Meter:
    """An amount that can only be spent once. Exact, and safe to use from several threads.

    A forked process has a copy of it, with which the same amount could be spent again. So only the process
    that made it may charge it.

    ``total``: What it holds. ``above``: The meter it was taken from: once that one is closed, this one is.
    """

    def __init__(self, total: Fraction, *, above: Meter | None = None) -> None:
        self.total = total
        self._above = above
        self._spent = Fraction(0)
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def spent(self) -> Fraction:
        """What has been charged, grants to children included."""
        return self._spent

    @property
    def remaining(self) -> Fraction:
        """What can still be charged."""
        return self.total - self._spent

    @property
    def closed(self) -> bool:
        """Whether the parallel scope it belongs to has ended."""
        return self._closed or (self._above is not None and self._above.closed)

    def charge(self, amount: Fraction, where: str) -> None:
        """Take ``amount``, or raise and take nothing.

        Raises
        ------
        BudgetExceeded
            More than remains.
        MechanismError
            The parallel scope this channel belongs to has ended, or this is another process.
        """
        if os.getpid() != self._process:  # before the lock: a fork may have copied it while it was held
            raise MechanismError(
                "this channel belongs to another process", where=where, hint="draw where it was opened"
            )
        with self._lock:
            if self.closed:
                raise MechanismError(
                    "this channel is closed: its parallel scope has ended",
                    where=where,
                    hint="draw inside the scope",
                )
            if amount > self.remaining:
                raise BudgetExceeded(
                    f"asks for {amount} but the channel holds {self.remaining}",
                    where=where,
                    hint="nothing was drawn",
                )
            self._spent += amount

    def refund(self, amount: Fraction) -> None:
        """Give back what a parallel scope reserved and its dearest branch did not need."""
        with self._lock:
            self._spent -= amount

    def close(self) -> None:
        """Refuse every later charge."""
        with self._lock:
            self._closed = True
