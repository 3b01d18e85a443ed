"""What twins are made of: small mechanisms that are sound or broken, and registered ones with one mistake."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.channel.replay.replay_findings import Force
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Mechanism
from tests.audit.cases import Case, Counts

Drawn = tuple[dict[str, Any], dict[str, Any]]


def small(*shapes: tuple[int, ...], largest: int = 1000) -> Case:
    """What to audit a twin with. Counts are small: at 2^40 hardly any noise matters."""
    return Case(worst=([], []), shapes=shapes, largest=largest)


FEW_CELLS = small((4,), (9,))


@dataclass(frozen=True)
class Broken:
    """A registered mechanism with one mistake; its class says which.

    Where the search would not come upon the mistake, ``pair`` and ``force`` are the tables and outputs that show it.
    """

    mechanism: Mechanism
    case: Case = FEW_CELLS
    pair: Any = None
    force: Force | None = None


class Wrapped:
    """A channel, to change what goes through it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


@dataclass(frozen=True)
class Twin(Mechanism):
    """Base of the small mechanisms; ``finish`` hands back what was measured."""

    broken: bool = True
    name: ClassVar[str] = "twin"
    definitions: ClassVar = ("pure",)
    case: ClassVar[Case] = Case(
        worst=([], []), shapes=((1,), (2,), (7,), (16,)), large=((130,),), largest=1000
    )

    def finish(self, measured: Measured) -> Release:
        return Release(
            values=next(iter(measured.arrays.values())),
            transcript=measured.transcript,
            insecure=measured.insecure,
            diagnostics=measured.meta,
        )


class Says(Twin):
    """Base: noise on every cell, and one thing that is said beside it; the sound one says it of the noisy cells."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        budget = channel.budget
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        return {"cells": noisy}, {"said": self.said(counts if self.broken else noisy, budget)}

    def said(self, cells: Counts, budget: Fraction) -> int:
        """Return what is said beside it."""
        raise NotImplementedError
