"""What a mechanism sees of its channel: the primitives and what is left, not where the noise comes from.

A mechanism that could tell an audit from a release could behave in the one and leak in the other. So it is
handed a façade, which looks the same before a secure, a seeded and a replayed channel: no attribute, public
or private, leads to the source, to its label, or to whether the noise is predictable. (Python has no walls:
frames and closures can be dug through. That is no mistake that anybody makes by chance.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from numpy.typing import ArrayLike

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel.arguments import Amount
from tabularium.mechanisms.channel.metered_channel import Channel
from tabularium.mechanisms.channel.scopes import Parallel
from tabularium.mechanisms.errors import MechanismError

_FORWARDED = (
    *("laplace", "gaussian", "add_noise", "lattice", "pick", "pick_each", "partition"),
    *("pure_epsilon", "pure_cost"),
)


def facade(channel: Channel) -> Channel:
    """Return what a mechanism may see of ``channel``: all that ``Channel`` offers but ``insecure``."""
    return cast("Channel", Facade(channel))


class Facade:
    """A channel's public face; what each call does: ``tabularium.mechanisms.channel.metered_channel``.

    Its attributes are numbers and functions that hand out nothing bound to the channel.
    """

    __slots__ = ("_remaining", "_transcript", "budget", "definition", "grant", "parallel", *_FORWARDED)

    def __init__(self, channel: Channel) -> None:
        def forwarded(name: str) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                return getattr(channel, name)(*given, **named)

            return call

        def grant(amount: Amount, purpose: str) -> Channel:
            return facade(channel.grant(amount, purpose))

        def remaining() -> Fraction:
            return channel.remaining

        def transcript() -> tuple[Event, ...]:
            return channel.transcript

        @contextmanager
        def parallel(*given: Any, **named: Any) -> Iterator[Branches]:
            with channel.parallel(*given, **named) as scope:
                yield Branches(scope)

        self.definition, self.budget = channel.definition, channel.budget
        self.grant, self.parallel = grant, parallel
        for name in _FORWARDED:
            setattr(self, name, forwarded(name))
        self._remaining, self._transcript = remaining, transcript

    @property
    def remaining(self) -> Fraction:
        """What can still be spent."""
        return self._remaining()

    @property
    def transcript(self) -> tuple[Event, ...]:
        """The events so far, their parallel scopes by number alone, without the label of the source."""
        return tuple(
            replace(event, branches=tuple((name.rpartition(".")[2], at) for name, at in event.branches))
            for event in self._transcript()
        )

    def __reduce__(self) -> Any:
        raise MechanismError("a noise channel cannot be copied or stored", where="channel")


class Branches:
    """A parallel scope's public face."""

    __slots__ = ("branch", "representatives")

    def __init__(self, scope: Parallel[Channel]) -> None:
        def branch(bins: slice | ArrayLike, purpose: str = "") -> Channel:
            return facade(scope.branch(bins, purpose))

        def representatives() -> list[int]:
            return scope.representatives()

        self.branch = branch
        self.representatives = representatives
