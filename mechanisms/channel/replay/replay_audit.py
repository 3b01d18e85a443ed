"""The audit's channel: two runs on neighbouring data, forced to the same noisy outputs.

A mechanism that meets randomness only through a channel is a sequence of draws, each of which may depend on
the data and on earlier outputs, and a function of the outputs. If, for the *same* outputs, two neighbouring
data sets give the same sequence of events and the same result, then whatever the result reveals was paid for
by the draws, and the privacy loss at those outputs is the sum of theirs. So the audit

1. runs the mechanism on one data set and records the outputs of its draws (drawn, or made up: any output that
   could ever come out must be within budget),
2. runs it on the neighbour with the outputs forced to be the same ones,
3. demands identical events and bit-identical results, and adds up the loss of each draw from what was about
   to be measured in the two runs.

It trusts nothing the mechanism declares except the noise scale, which the distribution tests check.

What was returned is frozen at once, so buffers and dictionaries that a mechanism reuses are seen. A memory
keyed on the *noisy* outputs (``functools.cache`` around a function that also sees the counts) would answer
the second run from the first run's memory: ``record`` and ``answer`` can be called in two processes, where
there is no such memory, and ``compared`` judges what they bring. Blind spots: what a mechanism does to files,
clocks or other processes, and how long it takes.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.accounting.transcript import CHOICES, GAUSSIANS, Definition, Event
from mechanisms.channel.argument_checks import Amount, exact
from mechanisms.channel.budget_meter import Meter
from mechanisms.channel.event_builder import Place
from mechanisms.channel.least_noisy_partition import LARGEST_SUM, least_partition, weight_of_change
from mechanisms.channel.metered_channel import Channel
from mechanisms.channel.noise_source import Integers, Sampler
from mechanisms.channel.replay.bitwise_comparison import difference_between
from mechanisms.channel.replay.choice_probabilities import log_ratios
from mechanisms.measured import Measured, Release

Output = Integers | int


class Audited(Protocol):
    """What the audit asks of a mechanism; see ``mechanisms.mechanism.Mechanism``."""

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
    ended
        Type and text of the error in which both runs ended alike, or empty. A mechanism that cannot take the
        counts at all loses nothing; whoever audits it must look here.
    """

    loss: float
    reason: str = ""
    losses: tuple[tuple[Event, float], ...] = ()
    ended: str = ""

    def overdrawn(self, group: int = 1) -> list[str]:
        """Return the purposes of events that lost more than they declared, for neighbours ``group`` apart."""
        return [
            event.purpose
            for event, loss in self.losses
            if loss > float(event.loss) * (group if event.definition == "pure" else group**2) * (1 + 1e-9)
        ]


def replay_loss(
    mechanism: Audited,
    counts: ArrayLike,
    neighbour: ArrayLike,
    budget: Amount,
    seed: int | str,
    **options: Any,
) -> float:
    """Return the privacy loss of one pair of data sets at one sequence of outputs; see ``replay``.

    Infinite when, under forced outputs, the two runs differ in their events or in anything they return.
    """
    return replay(mechanism, counts, neighbour, budget, seed, **options).loss


def replay(
    mechanism: Audited,
    counts: ArrayLike,
    neighbour: ArrayLike,
    budget: Amount,
    seed: int | str,
    *,
    definition: Definition | None = None,
    force: Force | None = None,
) -> Replay:
    """Run ``mechanism`` on two data sets with the same outputs, and account for every draw.

    Parameters
    ----------
    counts, neighbour
        Two data sets of the same shape.
    budget
        What the channel holds, for one record.
    seed
        Of the outputs that are recorded (through the exact samplers).
    definition
        By default pure if the mechanism can, otherwise zCDP.
    force
        Replaces recorded outputs by others; by default they are kept.
    """
    kind: Definition = definition or ("pure" if "pure" in mechanism.definitions else "zcdp")
    first = record(mechanism, counts, budget, seed, definition=kind, force=force)
    second = answer(mechanism, neighbour, budget, first.draws, definition=kind)
    return compared(mechanism, first, second)


@dataclass(frozen=True, eq=False)
class Recording:
    """The first run: its draws and what it gave."""

    draws: list[Draw]
    run: Run


@dataclass(frozen=True, eq=False)
class Answer:
    """The neighbour's run: what was to be measured at each draw, and what it gave, or how it diverged."""

    inputs: list[Integers]
    run: Run | None
    diverged: str


def record(
    mechanism: Audited,
    counts: ArrayLike,
    budget: Amount,
    seed: int | str,
    *,
    definition: Definition,
    force: Force | None = None,
) -> Recording:
    """Run ``mechanism`` and keep every draw."""
    recorder = Recorder(str(seed), force)
    meter = Meter(exact(budget, "replay"))
    run = _run(mechanism, counts, Channel(meter, recorder, definition, place=Place()))
    return Recording(recorder.draws, run)


def answer(
    mechanism: Audited,
    neighbour: ArrayLike,
    budget: Amount,
    draws: list[Draw],
    *,
    definition: Definition,
) -> Answer:
    """Run ``mechanism`` on the neighbour with the outputs of ``draws``."""
    player = Player(draws)
    meter = Meter(exact(budget, "replay"))
    try:
        run = _run(mechanism, neighbour, Channel(meter, player, definition, place=Place()))
    except Diverged:
        run = None
    fewer = "" if len(player.inputs) == len(draws) else "the neighbour's run drew fewer times"
    return Answer(player.inputs, run, player.diverged or fewer)


def compared(mechanism: Audited, first: Recording, second: Answer) -> Replay:
    """Return the loss of two runs, infinite if they differ."""
    if second.diverged:
        return Replay(inf, second.diverged)
    if (where := difference_between(first.run, second.run)) is not None:
        return Replay(inf, f"the results differ in {where}")
    if first.run.measured is not None:
        again = copy.deepcopy(mechanism.finish(copy.deepcopy(first.run.measured)))
        if (where := difference_between(first.run.release, again)) is not None:
            return Replay(inf, f"finishing the same measurement again differs in {where}")
    pairs = zip(first.draws, second.inputs, strict=True)
    losses = [(draw.event, _loss(draw, inputs)) for draw, inputs in pairs]
    total = sum((loss for _, loss in losses), Fraction(0))
    each = tuple((event, float(loss)) for event, loss in losses)
    return Replay(float(total), "", each, first.run.ended)


class Diverged(BaseException):
    """The neighbour's run asked for something else. Not an ``Exception``: no mechanism may swallow it."""


class Recorder:
    """A source that keeps what it was asked and what it gave."""

    insecure = True
    label = "replay"

    def __init__(self, seed: str, force: Force | None) -> None:
        self._sampler = Sampler(seed)
        self._force = force
        self.draws: list[Draw] = []

    def laplace(self, values: Integers, event: Event) -> Integers:
        """Draw (or make up), and keep."""
        return self._keep(values, event, self._sampler.laplace(values, event))

    def gaussian(self, values: Integers, event: Event) -> Integers:
        """Draw (or make up), and keep."""
        return self._keep(values, event, self._sampler.gaussian(values, event))

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

    def _keep(self, values: Integers, event: Event, drawn: Integers) -> Integers:
        made = self._force(event, values.copy(), drawn) if self._force else drawn
        output = np.array(np.broadcast_to(np.asarray(made, dtype=np.int64), event.shape))
        self.draws.append(Draw(event, values.copy(), output.copy()))
        return output


class Player:
    """A source that gives recorded outputs, as long as it is asked the recorded questions."""

    insecure = True
    label = "replay"

    def __init__(self, draws: list[Draw]) -> None:
        self._draws = draws
        self.inputs: list[Integers] = []
        self.diverged = ""

    def laplace(self, values: Integers, event: Event) -> Integers:
        """Return the recorded noisy values."""
        return self._next(Draw(event, values, values))

    def gaussian(self, values: Integers, event: Event) -> Integers:
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
            raise self._stop(f"the neighbour's run drew more times (event {number}, {purpose})")
        draw = self._draws[number]
        if not asked.same_question(draw):
            raise self._stop(f"event {number} differs ({draw.event.purpose}; {purpose})")
        self.inputs.append(asked.inputs.copy())
        return draw.output.copy()

    def _stop(self, why: str) -> Diverged:
        self.diverged = self.diverged or why
        return Diverged(why)


@dataclass(frozen=True, eq=False)
class Run:
    """Everything one run gave: measurement and release, or how it ended; and its warnings."""

    measured: Measured | None
    release: Release | None
    ended: str
    error: list[Any]
    transcript: tuple[Event, ...]
    warned: list[tuple[type[Warning], str, str, int]]


def _run(mechanism: Audited, counts: ArrayLike, channel: Channel) -> Run:
    """Return what a run gives, as a copy: a buffer that the next run fills again would make both alike."""
    measured, release, ended, error = None, None, "", []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fresh = mechanism.measure(counts, channel)
            kept = copy.deepcopy(fresh)
            measured, release = kept, copy.deepcopy(mechanism.finish(fresh))
        except Exception as raised:
            ended, error = f"{type(raised).__name__}: {raised}", _chain(raised)
    warned = [(each.category, str(each.message), each.filename, each.lineno) for each in caught]
    return Run(measured, release, ended, error, channel.transcript, warned)


def _chain(error: BaseException | None) -> list[Any]:
    """Return all that an error shows: type, text, arguments, notes and fields, and the errors behind it."""
    shown: list[Any] = []
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            shown.append(None)
            continue
        seen.add(id(one))
        shown.append((type(one), str(one), one.args, dict(vars(one)), one.__suppress_context__))
        waiting += [one.__cause__, one.__context__]
    return copy.deepcopy(shown)


def _loss(draw: Draw, inputs: Integers) -> Fraction:
    """Return what one draw loses between two inputs, in the unit of its channel."""
    event = draw.event
    if event.primitive in CHOICES:
        pure = Fraction(sum(_loss_of_choice(*pair, draw) for pair in _groups_apart(draw, inputs)))
    elif event.primitive == "least_noisy_partition":
        ends = np.array(draw.starts), np.array(draw.stops)
        weight = weight_of_change(inputs - draw.inputs, *ends, draw.cells)
        pure = 2 * Fraction(weight) / Fraction(event.scale)
    else:
        apart = np.flatnonzero(draw.inputs.reshape(-1) != inputs.reshape(-1))
        pairs = zip(draw.inputs.reshape(-1)[apart].tolist(), inputs.reshape(-1)[apart].tolist(), strict=True)
        distances = [abs(one - other) for one, other in pairs]
        if event.primitive in GAUSSIANS:
            return Fraction(sum(distance**2 for distance in distances)) / (2 * event.scale_squared)
        pure = sum(distances) / Fraction(event.scale)
    return pure if event.definition == "pure" else pure**2 / 2


def _groups_apart(draw: Draw, inputs: Integers) -> list[tuple[Integers, Integers]]:
    """Return the gaps, in the two runs, of each group in which they differ."""
    groups = zip(np.split(draw.inputs, draw.starts[1:]), np.split(inputs, draw.starts[1:]), strict=True)
    return [(one, other) for one, other in groups if not np.array_equal(one, other)]


def _loss_of_choice(gaps: Integers, others: Integers, draw: Draw) -> float:
    """Return the largest |ln P/P'| over all candidates of a group."""
    return float(np.abs(log_ratios(gaps, others, draw.rate, draw.event.primitive)).max())
