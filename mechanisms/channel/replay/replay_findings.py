"""What the replay audit looks at and finds: mechanisms, their draws, and one pair of runs compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from numpy.typing import ArrayLike

from tabularium.mechanisms.accounting.transcript import Definition, Event
from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.channel.metered_channel import Channel
from tabularium.mechanisms.measured import Measured, Release

Output = Integers | int


class Audited(Protocol):
    """What the audit asks of a mechanism; see ``tabularium.mechanisms.mechanism.Mechanism``."""

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The definitions of privacy it knows."""

    def measure(self, counts: ArrayLike, channel: Channel) -> Measured:
        """Draw its measurements of ``counts``."""

    def finish(self, measured: Measured) -> Release:
        """Turn measurements into a release."""


Force = Callable[[Event, Integers, Output], Output]
"""Makes up an output, from the event, what is measured (values, or gaps of scores) and what was drawn.

Of choices in groups it is asked for one group at a time.
"""


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw: its event, what was to be measured (values, or gaps of scores), and what came out.

    ``rate`` and ``starts`` belong to choices: what a gap is worth, and where the groups begin. ``starts``,
    ``stops`` and ``cells`` belong to partitions: the intervals on offer.
    """

    event: Event
    inputs: Integers
    output: Integers
    rate: Fraction = Fraction(1)
    starts: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()
    cells: int = 0

    def same_question(self, other: Draw) -> bool:
        """Return whether all that may not depend on the data is the same."""
        asked = [(d.event, d.rate, d.starts, d.stops, d.cells) for d in (self, other)]
        return asked[0] == asked[1]


@dataclass(frozen=True)
class Replay:
    """What an audit of one pair of neighbours found.

    Attributes
    ----------
    loss
        Privacy loss at these outputs, in the unit of the budget; infinite if the runs differ.
    reason
        Why it is infinite, or empty.
    losses
        For each event, what it declared and what it lost.
    """

    loss: float
    reason: str = ""
    losses: tuple[tuple[Event, float], ...] = ()

    def overdrawn(self, group: int = 1) -> list[str]:
        """Return the purposes of events that lost more than they declared, for neighbours ``group`` apart."""
        return [
            event.purpose
            for event, loss in self.losses
            if loss > float(event.loss) * (group if event.definition == "pure" else group**2) * (1 + 1e-9)
        ]
