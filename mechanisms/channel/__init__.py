"""The noise channels: secure for releases, seeded for tests, replay for audits.

Every mechanism is handed a channel and draws through it only. All three meter the same budget, offer the
same primitives and write the same transcript; they differ in where the noise comes from.

``metered_channel`` has the primitives and their prices, ``noise_source`` draws with the samplers of
``tabularium.mechanisms.noise``, ``replay`` audits mechanisms; what an event is:
``tabularium.mechanisms.accounting.transcript``.
"""

from __future__ import annotations

from tabularium.mechanisms.accounting.transcript import Definition, Event
from tabularium.mechanisms.channel.arguments import Amount, exact
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.metered_channel import Channel, ScopePath
from tabularium.mechanisms.channel.noise_source import Sampler, Source
from tabularium.mechanisms.channel.replay.replay_audit import replay, replay_loss
from tabularium.mechanisms.channel.replay.replay_findings import Replay
from tabularium.mechanisms.channel.scopes import Parallel
from tabularium.mechanisms.errors import MechanismError

__all__ = [
    "Channel",
    "Event",
    "Parallel",
    "Replay",
    "SecureChannel",
    "SeededChannel",
    "replay",
    "replay_loss",
]


class SecureChannel(Channel):
    """The channel of releases: exact samplers under a key fresh from the operating system.

    Parameters
    ----------
    budget
        Exact ε (pure) or ρ (zCDP) for one record.
    definition
        ``"pure"`` or ``"zcdp"``.

    Examples
    --------
    >>> from fractions import Fraction
    >>> channel = SecureChannel(Fraction(1, 2))
    >>> noisy = channel.laplace([3, 5], Fraction(1, 4), purpose="cells")
    >>> channel.remaining, noisy.shape
    (Fraction(1, 4), (2,))
    """

    def __init__(self, budget: Amount, *, definition: Definition = "pure") -> None:
        _open(self, budget, definition, Sampler())


class SeededChannel(Channel):
    """The same samplers over a repeatable stream. **Insecure**: for tests and benchmarks only.

    Parameters
    ----------
    budget, definition
        As for ``SecureChannel``.
    seed
        Whole number or text that determines every draw.
    """

    def __init__(self, budget: Amount, *, seed: int | str, definition: Definition = "pure") -> None:
        _open(self, budget, definition, Sampler(str(seed)))


def _open(channel: Channel, budget: Amount, definition: Definition, source: Source) -> None:
    if definition not in {"pure", "zcdp"}:
        raise MechanismError(
            "no such definition of differential privacy", where="channel", hint="use pure or zcdp"
        )
    Channel.__init__(channel, Meter(exact(budget, "channel")), source, definition, place=ScopePath())
