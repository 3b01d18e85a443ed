"""The audit's channel: several runs on different data, forced to the same noisy outputs.

A mechanism that meets randomness only through a channel is a sequence of draws, and each may depend on
the data and on earlier outputs, and a function of the outputs. If, for the *same* outputs, all tables of one
shape give the same sequence of events and the same result, then whatever the result reveals was paid for by
the draws, and between two neighbours the privacy loss at those outputs is the sum of theirs. So the audit

1. runs the mechanism on one table and records the outputs of its draws (drawn, or made up: any output that
   could ever come out must be within budget);
2. runs it on the other table with the outputs forced to be the same ones, in another process;
3. runs it, in a third process that never gets either table, on public ones: zeros, and large counts;
4. demands identical events, measurements, releases, warnings, log records and printed text from all of them,
   and adds up the loss of each draw from what was about to be measured in the first two.

So what is published is what a process computes from the recorded outputs that never had the counts. The
processes are forks of the one that asks, made before the mechanism sees anything: no cache, no memory of the
first data, nor any other state can carry a table from one to another. The channel looks to the mechanism as
it does in a release (``tabularium.mechanisms.mechanism``). The audit trusts nothing that the mechanism
declares except the noise scale, which the distribution tests check.

An error is no equality: the loss is infinite. Only a ``MechanismError`` before the first draw, the same for
both tables, is a refusal by a public condition, and raised as what it is. What accepts them and refuses a
public table of their shape refuses for its counts, and that it accepted them tells of theirs.

Blind spots:

- a leak on an event, in the outputs or in the data, that none of the runs meets. The two tables, zeros and
  large counts lie on both sides of every threshold between them; of what happens at random with probability
  p, n replays find 1 - (1 - p)^n. ``tests/audit`` demands that every branch of ``draw`` be taken by some run;
- what the mechanism had seen in this process before (``tests/audit`` asks a fresh interpreter too);
- files, sockets, clocks, memory, and how long a run takes;
- all that comes before the counts (bounding, joins, clamping), which is tested by brute force.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from dataclasses import replace as altered
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.accounting.transcript import CHOICES, GAUSSIANS, Definition, Event
from tabularium.mechanisms.arrays import LARGEST_SUM, Floats, Integers
from tabularium.mechanisms.channel.arguments import Amount, exact
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.least_noisy_partition import least_partition, weight_of_change
from tabularium.mechanisms.channel.metered_channel import Channel, ScopePath
from tabularium.mechanisms.channel.noise_source import Sampler, Source
from tabularium.mechanisms.channel.replay.clean_process import CleanProcess, capture_output, load, loaded
from tabularium.mechanisms.channel.replay.replay_findings import Audited, Draw, Force, Replay
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.measured import Measured, Release

_NOTHING: Integers = np.zeros(0, dtype=np.int64)


def replay_loss(
    mechanism: Audited,
    counts: ArrayLike,
    neighbour: ArrayLike,
    budget: Amount,
    seed: int | str,
    **options: Any,
) -> float:
    """Return the privacy loss of one pair of data sets at one sequence of outputs; see ``replay``.

    Infinite when, under forced outputs, the runs differ in their events or in anything they return or say, or
    when one of them ends in an error.
    """
    return replay(mechanism, counts, neighbour, budget, seed, **options).loss


def same_under_forced_outputs(
    mechanism: Audited, counts: ArrayLike, other: ArrayLike, budget: Amount, seed: int | str, **options: Any
) -> bool:
    """Return whether two tables, neighbours or not, look the same under the same outputs."""
    return replay(mechanism, counts, other, budget, seed, **options).loss < inf


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
        Two data sets of the same shape. They need not be neighbours; the loss then is that of the pair.
    budget
        What the channel holds, for one record.
    seed
        Of the outputs that are recorded (through the exact samplers).
    definition
        By default pure if the mechanism can, otherwise zCDP.
    force
        Replaces recorded outputs by others; by default they are kept.

    Raises
    ------
    MechanismError
        The mechanism refuses both data sets alike, before it draws.
    """
    kind: Definition = definition or ("pure" if "pure" in mechanism.definitions else "zcdp")
    with CleanProcess(mechanism, force) as first:
        recording, result = first.call(_recorded, counts, budget, seed, kind)
    load(result)
    with Audit(mechanism) as audit:
        return audit.compared(recording, neighbour, budget, kind)


class Audit:
    """Two clean processes in which one mechanism runs, for many pairs: one for neighbours, one without data.

    ``mechanism``: It must not have run in this process, or what it remembers of that is not found out.
    """

    def __init__(self, mechanism: Audited) -> None:
        self._mechanism = mechanism
        with ExitStack() as stack:
            self._neighbours = stack.enter_context(CleanProcess(mechanism))
            self._without_data = stack.enter_context(CleanProcess(mechanism))
            self._stack = stack.pop_all()

    def replay(
        self,
        counts: ArrayLike,
        neighbour: ArrayLike,
        budget: Amount,
        seed: int | str,
        *,
        definition: Definition,
        force: Force | None = None,
    ) -> Replay:
        """As ``replay``, with the first run in this process."""
        recording = record(self._mechanism, counts, budget, seed, definition=definition, force=force)
        return self.compared(recording, neighbour, budget, definition)

    def compared(
        self, recording: Recording, neighbour: ArrayLike, budget: Amount, definition: Definition
    ) -> Replay:
        """Have the others run, and compare."""
        script = recording.script()
        second = self._neighbours.begin(answer, neighbour, budget, script, definition)
        public = self._without_data.begin(without_data, np.shape(neighbour), budget, script, definition)
        return compared(recording, second(), public())

    def __enter__(self) -> Audit:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


# --- the runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Script:
    """The outputs of a run, and the questions they answer; nothing of what was measured."""

    draws: list[Draw]
    label: str


@dataclass(frozen=True, eq=False)
class Recording:
    """The first run: its draws and what it gave."""

    draws: list[Draw]
    run: Run
    label: str

    def script(self) -> Script:
        """Return what the other runs may know of it."""
        return Script([altered(draw, inputs=_NOTHING) for draw in self.draws], self.label)


@dataclass(frozen=True, eq=False)
class Answer:
    """Another run: what was to be measured at each draw, and what it gave, or how it diverged."""

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
    run = _run(mechanism, counts, budget, recorder, definition)
    return Recording(recorder.draws, run, recorder.label)


def answer(
    mechanism: Audited,
    table: ArrayLike,
    budget: Amount,
    script: Script,
    definition: Definition,
    *,
    finishing: bool = True,
) -> Answer:
    """Run ``mechanism`` on another table with the outputs of a script; ``finishing``: to its release."""
    player = Player(script.draws, script.label)
    try:
        run = _run(mechanism, table, budget, player, definition, finishing)
    except Diverged:
        run = None
    fewer = "" if len(player.inputs) == len(script.draws) else "drew fewer times"
    return Answer(player.inputs, run, player.diverged or fewer)


def without_data(
    mechanism: Audited, shape: tuple[int, ...], budget: Amount, script: Script, definition: Definition
) -> dict[str, Answer]:
    """Run ``mechanism`` on the public tables of a shape with the outputs of a script.

    On the first of them to the end. The others' measurements are the same, and what is made of them, too.
    """
    result: dict[str, Answer] = {}
    for name, table in public_tables(shape).items():
        given = answer(mechanism, table, budget, script, definition=definition, finishing=not result)
        result[name] = altered(given, inputs=[])
    return result


def public_tables(shape: tuple[int, ...]) -> dict[str, NDArray[np.int64]]:
    """Return tables that anybody could write down: no record at all, and about a million in each cell."""
    many = 1_000_003 + 7_919 * np.arange(int(np.prod(shape)), dtype=np.int64) % 65_537
    return {"zeros": np.zeros(shape, dtype=np.int64), "large counts": many.reshape(shape)}


def _recorded(
    mechanism: Audited,
    force: Force | None,
    counts: ArrayLike,
    budget: Amount,
    seed: int | str,
    kind: Definition,
) -> tuple[Recording, Any]:
    return record(mechanism, counts, budget, seed, definition=kind, force=force), loaded()


@dataclass(frozen=True, eq=False)
class Run:
    """Everything one run gave: measurement and release, or how it ended; and what it printed.

    ``refused`` is the error (what, where, hint) of a mechanism that would not even begin.
    """

    measured: Measured | None
    release: Release | None
    ended: str
    refused: tuple[str, str, str] | None
    transcript: tuple[Event, ...]
    output: list[str]
    output_finishing: list[str]

    def unfinished(self) -> Run:
        """Return what was there before finishing."""
        return altered(self, release=None, output_finishing=[])


def _run(
    mechanism: Audited,
    counts: ArrayLike,
    budget: Amount,
    source: Source,
    definition: Definition,
    finishing: bool = True,
) -> Run:
    """Return what a run gives, as a copy: a buffer that the next run fills again would make both alike."""
    channel = Channel(Meter(exact(budget, "replay")), source, definition, place=ScopePath())
    measured, release, ended, refused = None, None, "", None
    output: tuple[list[str], list[str]] = ([], [])
    try:
        with capture_output(output[0]):
            fresh = mechanism.measure(counts, channel)
        measured = _own(fresh)
        if finishing:
            with capture_output(output[1]):
                release = _own(mechanism.finish(fresh))
    except (Exception, SystemExit) as raised:
        ended = f"{type(raised).__name__}: {raised}"
        if isinstance(raised, MechanismError) and not channel.transcript:
            refused = raised.what, raised.where, raised.hint
    return Run(measured, release, ended, refused, channel.transcript, *output)


def _own(record: Any) -> Any:
    """Return a copy that shares no array and no dictionary with what a mechanism returned."""
    parts = {item.name: getattr(record, item.name) for item in fields(record)}
    return altered(
        record, **{name: part if name == "transcript" else deepcopy(part) for name, part in parts.items()}
    )


# --- the comparison -----------------------------------------------------------------------------------


def compared(first: Recording, second: Answer, public: dict[str, Answer]) -> Replay:
    """Return the loss of two runs, infinite if they or the public ones differ.

    Raises
    ------
    MechanismError
        The mechanism refuses both tables alike, before it draws.
    """
    if (reason := _difference(first.run, second, "the other table")) is not None:
        return Replay(inf, reason)
    if first.run.refused is not None:
        what, where, hint = first.run.refused
        raise MechanismError(what, where=where, hint=hint)
    if first.run.ended:
        return Replay(inf, f"the runs ended in an error: {first.run.ended}")
    for name, table in public.items():
        if table.run is not None and table.run.refused is not None:
            return Replay(inf, f"it refuses a table of {name}: {table.run.ended}")
        whole = table.run is None or table.run.release is not None
        run = first.run if whole else first.run.unfinished()
        if (reason := _difference(run, table, f"a table of {name}")) is not None:
            return Replay(inf, reason)
    pairs = zip(first.draws, second.inputs, strict=True)
    losses = [(draw.event, loss_of(draw, inputs)) for draw, inputs in pairs]
    total = sum((loss for _, loss in losses), Fraction(0))
    return Replay(float(total), "", tuple((event, float(loss)) for event, loss in losses))


def _difference(run: Run, other: Answer, whose: str) -> str | None:
    """Return how two runs differ, or None."""
    if other.diverged:
        return f"the run on {whose}: {other.diverged}"
    where = difference_between(run, other.run)
    if where is None:
        return None
    example = ""
    if "output" in where and other.run is not None:
        apart = {*run.output, *run.output_finishing} ^ {*other.run.output, *other.run.output_finishing}
        example = f": {min(apart, default='')[:200]}"
    return f"with {whose} the results differ in {where}{example}"


def loss_of(draw: Draw, inputs: Integers) -> Fraction:
    """Return what one draw loses between two inputs, in the unit of its channel."""
    event = draw.event
    if event.primitive in CHOICES:
        groups = zip(np.split(draw.inputs, draw.starts[1:]), np.split(inputs, draw.starts[1:]), strict=True)
        apart = [
            np.abs(log_ratios(one, other, draw.rate, event.primitive)).max()
            for one, other in groups
            if not np.array_equal(one, other)
        ]
        pure = Fraction(sum(map(float, apart)))
    elif event.primitive == "least_noisy_partition":
        ends = np.array(draw.starts), np.array(draw.stops)
        weight = weight_of_change(inputs - draw.inputs, *ends, draw.cells)
        pure = 2 * Fraction(weight) / Fraction(event.scale)
    else:
        moved = np.flatnonzero(draw.inputs.reshape(-1) != inputs.reshape(-1))
        pairs = zip(draw.inputs.reshape(-1)[moved].tolist(), inputs.reshape(-1)[moved].tolist(), strict=True)
        distances = [abs(one - other) for one, other in pairs]
        if event.primitive in GAUSSIANS:
            return Fraction(sum(distance**2 for distance in distances)) / (2 * event.scale_squared)
        pure = sum(distances) / Fraction(event.scale)
    return pure if event.definition == "pure" else pure**2 / 2


_NODES = 32
_BLOCK = 1024  # candidates at a time


def log_ratios(gaps: NDArray[np.int64], others: NDArray[np.int64], rate: Fraction, method: str) -> Floats:
    """Return ln P(r)/P'(r) for every candidate r, shape (m,), where P has ``gaps`` and P' has ``others``.

    The gaps are subtracted as integers: near the largest scores, a float holds a gap to some hundreds only.
    What is left of ln P depends on candidates with p_i that is not negligible, hence on small gaps.
    """
    moved = -float(rate) * (gaps - others)
    return np.asarray(moved + _beyond(gaps, rate, method) - _beyond(others, rate, method), dtype=np.float64)


def log_probabilities(gaps: NDArray[np.int64], rate: Fraction, method: str) -> Floats:
    """Return ln P(r) for every candidate r, shape (m,).

    With p_i = exp(-rate·gap_i): the exponential mechanism has P(r) = p_r / Σp_i, and permute-and-flip has
    P(r) = p_r ∫₀¹ Π_{i≠r}(1 - t·p_i) dt (candidate r comes before each other candidate that would have been
    chosen; t is r's place in the order).
    """
    return np.asarray(-float(rate) * gaps + _beyond(gaps, rate, method), dtype=np.float64)


def _beyond(gaps: NDArray[np.int64], rate: Fraction, method: str) -> Floats:
    """Return ln P(r) + rate·gap_r for every candidate."""
    logs = -float(rate) * gaps.astype(np.float64)
    if method == "exponential":
        return np.full(gaps.size, -np.logaddexp.reduce(logs))
    return _log_integrals(np.exp(logs))


def _log_integrals(weights: Floats) -> Floats:
    """Return ln ∫₀¹ Π_{i≠r}(1 - t·p_i) dt for each r, by Gauss-Legendre on panels that halve towards 0.

    The integrand falls like exp(-t·Σp), so for many candidates all of it is near 0; on a panel whose width is
    half its right end, 32 nodes integrate it to machine precision.
    """
    nodes, mass = _panels(weights.size.bit_length() + 4)
    total = np.zeros(nodes.size)
    for block in _blocks(weights):
        total += np.log1p(-np.outer(block, nodes)).sum(axis=0)
    total += mass
    parts = [np.logaddexp.reduce(total - np.log1p(-np.outer(b, nodes)), axis=1) for b in _blocks(weights)]
    return np.concatenate(parts)


def _blocks(weights: Floats) -> list[Floats]:
    return [weights[start : start + _BLOCK] for start in range(0, weights.size, _BLOCK)]


@lru_cache(maxsize=32)
def _panels(halvings: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes on [0, 1] and the logarithms of their weights."""
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    right = 0.5 ** np.arange(halvings)
    left = np.append(right[1:], 0.0)
    half = (right - left) / 2
    nodes = left[:, None] + half[:, None] * (points + 1)
    return nodes.reshape(-1), np.log(half[:, None] * weights).reshape(-1)


Part = tuple[Any, Any, str]


def difference_between(one: Any, other: Any, where: str = "the result") -> str | None:
    """Return where two results differ in so much as one bit, or None.

    Arrays are compared by type, shape, order in memory and bytes (so that -0.0 differs from 0.0), mappings
    with the order of their keys, and everything inside everything.
    """
    if type(one) is not type(other):
        return where
    if isinstance(one, Event):  # the channel's own: numbers and texts
        return None if one == other else where
    parts = _parts(one, other, where)
    if parts is not None:
        result = (difference_between(*part) for part in parts)
        return next((difference for difference in result if difference is not None), None)
    return None if _same_leaf(one, other) else where


def _parts(one: Any, other: Any, where: str) -> Iterable[Part] | None:
    """Return pairs to compare instead of the two values, or None for values without parts."""
    if is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in fields(one)]
        return ((getattr(one, name), getattr(other, name), f"{where}.{name}") for name in names)
    if isinstance(one, dict):
        entries = ((one[key], other.get(key), f"{where}[{key!r}]") for key in one)
        return [(tuple(one), tuple(other), where), *entries]
    if isinstance(one, list | tuple):
        pairs = ((*pair, where) for pair in zip(one, other, strict=False))
        return [(len(one), len(other), where), *pairs]
    return None


def _same_leaf(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.size > 1:  # strides of a single number or of none mean nothing, and change when it is copied
            alike = alike and one.strides == other.strides
        return bool(alike and one.tobytes() == other.tobytes())
    if isinstance(one, float):
        return bool(one.hex() == other.hex())
    return bool(one == other)


# Two sources of noise for the audit: one that keeps what it gives, and one that gives what was kept.
#
# To a mechanism both look as the secure source does, from the label down to ``insecure``: what it would do
# only where the noise is secure, it does here.


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
