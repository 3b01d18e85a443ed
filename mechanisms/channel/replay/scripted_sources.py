"""Two sources of noise for the audit: one that keeps what it gives, and one that gives what was kept.

To a mechanism both look as the secure source does, from the label down to ``insecure``: what it would do only
where the noise is secure, it does here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.arrays import LARGEST_SUM, Integers
from tabularium.mechanisms.channel.least_noisy_partition import least_partition
from tabularium.mechanisms.channel.noise_source import Sampler
from tabularium.mechanisms.channel.replay.replay_findings import Draw, Force


class Diverged(BaseException):
    """The neighbour's run asked for something else. Not an ``Exception``: no mechanism may swallow it."""


class Recorder:
    """A source that keeps what it was asked and what it gave."""

    insecure = False

    def __init__(self, seed: str, force: Force | None) -> None:
        self._sampler = Sampler(seed)
        self.label = self._sampler.label
        self._force = force
        self.draws: list[Draw] = []

    def noise(self, values: Integers, event: Event) -> Integers:
        """Draw (or make up), and keep."""
        drawn = self._sampler.noise(values, event)
        made = self._force(event, values.copy(), drawn) if self._force else drawn
        output = np.array(np.broadcast_to(np.asarray(made, dtype=np.int64), event.shape))
        self.draws.append(Draw(event, values.copy(), output.copy()))
        return output

    def pick(self, gaps: Integers, starts: Integers, rate: Fraction, event: Event) -> Integers:
        """Choose (or make up), and keep."""
        chosen = self._sampler.pick(gaps, starts, rate, event)
        if self._force:
            groups = zip(np.split(gaps, starts[1:]), chosen.tolist(), strict=True)
            chosen = np.array([int(self._force(event, group.copy(), one)) for group, one in groups])
        self.draws.append(Draw(event, gaps.copy(), chosen.copy(), rate, tuple(starts.tolist())))
        return chosen

    def partition(
        self, costs: Integers, starts: Integers, stops: Integers, cells: int, event: Event
    ) -> Integers:
        """Cut (or make up a cut), and keep."""
        chosen = self._sampler.partition(costs, starts, stops, cells, event)
        if self._force:
            # Any partition could come out: it is made up by made-up noise on the costs.
            noisy = np.asarray(self._force(event, costs.copy(), costs.copy()), dtype=np.int64)
            bound = LARGEST_SUM // cells
            made = np.clip(np.broadcast_to(noisy, costs.shape), -bound, bound)
            chosen = least_partition(made, starts, stops, cells)
        ends = tuple(starts.tolist()), tuple(stops.tolist())
        self.draws.append(Draw(event, costs.copy(), chosen.copy(), Fraction(1), *ends, cells))
        return chosen


class Player:
    """A source that gives recorded outputs, as long as it is asked the recorded questions."""

    insecure = False

    def __init__(self, draws: list[Draw], label: str) -> None:
        self._draws = draws
        self.label = label
        self.inputs: list[Integers] = []
        self.diverged = ""

    def noise(self, values: Integers, event: Event) -> Integers:
        """Return the recorded noisy values."""
        return self._next(Draw(event, values, values))

    def pick(self, gaps: Integers, starts: Integers, rate: Fraction, event: Event) -> Integers:
        """Return the recorded candidates."""
        return self._next(Draw(event, gaps, gaps, rate, tuple(starts.tolist())))

    def partition(
        self, costs: Integers, starts: Integers, stops: Integers, cells: int, event: Event
    ) -> Integers:
        """Return the recorded partition."""
        ends = tuple(starts.tolist()), tuple(stops.tolist())
        return self._next(Draw(event, costs, costs, Fraction(1), *ends, cells))

    def _next(self, asked: Draw) -> Integers:
        number, purpose = len(self.inputs), asked.event.purpose
        if number >= len(self._draws):
            raise self._stop(f"drew more times (event {number}, {purpose})")
        draw = self._draws[number]
        if not asked.same_question(draw):
            raise self._stop(f"event {number} differs ({draw.event.purpose}; {purpose})")
        self.inputs.append(asked.inputs.copy())
        return draw.output.copy()

    def _stop(self, why: str) -> Diverged:
        self.diverged = self.diverged or why
        return Diverged(why)
