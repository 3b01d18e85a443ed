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

from tabularium.mechanisms.accounting.transcript import Definition, Event
from tabularium.mechanisms.channel.arguments import Amount
from tabularium.mechanisms.channel.metered_channel import Channel
from tabularium.mechanisms.channel.scopes import Parallel
from tabularium.mechanisms.errors import MechanismError

_DRAWS = ("laplace", "gaussian", "add_noise", "lattice", "pick", "pick_each", "partition")
_PRICES = ("pure_epsilon", "pure_cost")


def facade(channel: Channel) -> Channel:
    """Return what a mechanism may see of ``channel``: all that ``Channel`` offers but ``insecure``."""
    return cast("Channel", Facade(channel))


class Facade:
    """A channel's public face; what each call does: ``tabularium.mechanisms.channel.metered_channel``."""

    __slots__ = ("_ask",)

    def __init__(self, channel: Channel) -> None:
        self._ask = _window(channel)

    @property
    def definition(self) -> Definition:
        """``"pure"`` or ``"zcdp"``."""
        return cast("Definition", self._ask("definition"))

    @property
    def budget(self) -> Fraction:
        """What the channel was opened with."""
        return cast("Fraction", self._ask("budget"))

    @property
    def remaining(self) -> Fraction:
        """What can still be spent."""
        return cast("Fraction", self._ask("remaining"))

    @property
    def transcript(self) -> tuple[Event, ...]:
        """The events so far, their parallel scopes by number alone."""
        return cast("tuple[Event, ...]", self._ask("transcript"))

    @contextmanager
    def parallel(self, amount: Amount, *, cells: int, purpose: str, fold: bool = False) -> Iterator[Branches]:
        """Open a scope over disjoint bins, whose branches are façades too."""
        with self._ask("parallel", amount, cells=cells, purpose=purpose, fold=fold) as scope:
            yield scope

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


def _window(channel: Channel) -> Callable[..., Any]:
    """Return a function that answers what a mechanism may ask, and hands out nothing bound to the channel."""

    @contextmanager
    def parallel(*given: Any, **named: Any) -> Iterator[Branches]:
        with channel.parallel(*given, **named) as scope:
            yield Branches(scope)

    def ask(what: str, *given: Any, **named: Any) -> Any:
        if what in {"definition", "budget", "remaining"}:
            return getattr(channel, what)
        if what == "transcript":
            return tuple(_unlabelled(event) for event in channel.transcript)
        if what == "grant":
            return facade(channel.grant(*given, **named))
        if what == "parallel":
            return parallel(*given, **named)
        if what in _DRAWS + _PRICES:
            return getattr(channel, what)(*given, **named)
        raise AttributeError(what)

    return ask


def _unlabelled(event: Event) -> Event:
    """Return the event without the label of its source, which is part of the names of scopes."""
    if not event.branches:
        return event
    return replace(
        event, branches=tuple((name.rpartition(".")[2], branch) for name, branch in event.branches)
    )


def _forwarded(name: str) -> Any:
    def call(self: Facade, *given: Any, **named: Any) -> Any:
        return self._ask(name, *given, **named)

    call.__name__ = name
    call.__doc__ = f"See ``Channel.{name}``."
    return call


for _name in ("grant", *_DRAWS, *_PRICES):
    setattr(Facade, _name, _forwarded(_name))
