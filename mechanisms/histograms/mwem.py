"""MWEM: ask where the table is furthest from what is known, measure that, and reweight; again and again.

Sensitivity and privacy: the total has sensitivity 1. A query is a sum of cells, or several that share no
cell, so its answer changes by 1 in L1; its score, |answer - model| summed in whole numbers, changes by at
most 1, since the model comes from earlier outputs. Picks and measurements cost their shares in sequence; how
many rounds and which queries there are follows from public numbers and the noisy total.

O(n·k) for k rounds of tilings, O(n + k·m + replays·k³) for single ranges with m candidates, O(replays·k²·n)
for marginals. Source: Hardt, Ligett, McSherry 2012; for whole marginals Liu and others 2021, McKenna and
others 2022 (AIM); what differs: docs/reference/mechanisms/mwem.md.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import combinations
from math import floor, prod, sqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, whole_number
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism

WORKLOADS = ("tilings", "ranges", "marginals")
MOST_ROUNDS = 1024
MOST_QUERIES = 1 << 20
_ROUNDS_CHOSEN = 200
_LEAST_CHOSEN = 4
_ROUNDS_OF_WHOLE = 3
_PARTS = 25  # a round's part of the total, in noise scales
_LONGEST_RUN = 4
_SLACK = Fraction(1, 2)


@dataclass(frozen=True)
class Mwem(Mechanism):
    """Multiplicative weights fitted to the worst queries, picked privately.

    Parameters
    ----------
    workload
        What is asked. ``"tilings"``: the row of cells is cut into ranges of equal width, and all their sums
        are measured at once (a table is read row by row). ``"ranges"``: single ranges, as in the paper.
        ``"marginals"``: marginals of up to ``order`` axes.
    candidates
        Which single ranges: ``"blocks"``, runs of one to four neighbouring halves, quarters, and so on;
        ``"prefixes"``; or ``"random"``.
    queries
        The most single ranges to pick from.
    seed
        Seed of the random ranges. Public.
    order
        The most axes of a marginal.
    rounds
        How many queries are measured. ``"auto"``: three for tilings; the number of axes for marginals, three
        at least; for single ranges 4 to 200, by the noisy total, and no more than there are cells.
    replays
        How often the weights go through all answers after each round.
    total_share
        Share of the budget for the noisy total.
    pick_share
        Share of each round's budget for the pick. ``"auto"``: a half for single ranges, a tenth otherwise.
    """

    workload: str = "tilings"
    candidates: str = "blocks"
    queries: int = 1 << 15
    seed: int = 0
    order: int = 2
    rounds: int | str = "auto"
    replays: int = 10
    total_share: str | Fraction = "1/20"
    pick_share: str | Fraction = "auto"

    name: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        one_of(self.workload, WORKLOADS, "workload")
        one_of(self.candidates, ("blocks", "prefixes", "random"), "candidates")
        whole_number(self.queries, 2, MOST_QUERIES, "queries")
        whole_number(self.seed, 0, (1 << 31) - 1, "seed")
        whole_number(self.order, 1, 16, "order")
        if isinstance(self.rounds, str):
            if self.rounds != "auto":
                raise MechanismError(
                    "there is no such number of rounds", where="rounds", hint="use auto or a whole number"
                )
        else:
            whole_number(self.rounds, 1, MOST_ROUNDS, "rounds")
        whole_number(self.replays, 1, 1000, "replays")
        self._refuse_what_does_not_count()
        object.__setattr__(self, "total_share", share_of_budget(self.total_share, "total_share"))
        if self.pick_share != "auto":
            object.__setattr__(self, "pick_share", share_of_budget(self.pick_share, "pick_share"))

    def _refuse_what_does_not_count(self) -> None:
        defaults = {field.name: field.default for field in fields(self)}
        random = self.workload == "ranges" and self.candidates == "random"
        for name, given, counts, when in (
            ("candidates", self.candidates, self.workload == "ranges", "workload: ranges"),
            ("queries", self.queries, self.workload == "ranges", "workload: ranges"),
            ("seed", self.seed, random, "workload: ranges with candidates: random"),
            ("order", self.order, self.workload == "marginals", "workload: marginals"),
        ):
            if not counts and given != defaults[name]:
                raise MechanismError(
                    "this has no effect here", where=name, hint=f"leave it out; it counts with {when}"
                )

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the total, then pick and measure a query in each round."""
        known = addable(counts)
        if counts.size == 1:  # nothing to ask but the total
            total = channel.add_noise(known.reshape(1), channel.remaining, purpose="total")
            return _arrays(total, [], []), {"shape": list(counts.shape), "narrowest": 1, "slack": 1.0}
        share = channel.remaining * Fraction(self.total_share)
        total = channel.add_noise(known.sum().reshape(1), share, purpose="total")
        mass = max(1, int(total[0]))
        rounds = self._rounds(mass, counts.shape, channel)
        noise = self._noise(channel.remaining / rounds, channel)
        # Spread evenly, the total would put as much into so many cells as an answer has noise.
        narrowest = min(counts.size, floor(noise * counts.size / mass) + 1)
        meta = {"shape": list(counts.shape), "narrowest": narrowest, "slack": noise * float(_SLACK)}
        asked, answers = self._run_rounds(known, float(mass), meta, rounds, channel)
        return _arrays(total, asked, answers), meta

    def finish(self, measured: Measured) -> Release:
        """Return the weights that fit all answers: float64, in the shape of the counts, nowhere negative."""
        meta, asked = measured.meta, measured.arrays["queries"]
        shape = tuple(meta["shape"])
        workload = self._workload(shape, meta["narrowest"])
        mass = max(1.0, float(measured.arrays["total"][0]))
        ends = np.cumsum([workload.length(query) for query in asked.tolist()], dtype=np.int64)
        answers = np.split(measured.arrays["answers"].astype(np.float64), ends[:-1])
        model = workload.fitted(asked, answers[: asked.size], meta["slack"], mass, self.replays)
        return measured.release(
            workload.table(model),
            rounds=int(asked.size),
            different_queries=int(np.unique(asked).size),
            candidates=workload.size,
            noise_of_an_answer=2 * meta["slack"],
            total=int(measured.arrays["total"][0]),
        )

    def _run_rounds(
        self, counts: Counts, mass: float, meta: dict[str, Any], rounds: int, channel: Channel
    ) -> tuple[list[int], list[NDArray[np.int64]]]:
        """Return the queries that were picked and their noisy answers; spends all there is."""
        workload = self._workload(counts.shape, meta["narrowest"])
        truth, slack = workload.truth(counts), meta["slack"]
        asked: list[int] = []
        answers: list[NDArray[np.int64]] = []
        share = channel.remaining / rounds
        for number in range(1, rounds + 1):
            known = [answer.astype(np.float64) for answer in answers]
            model = workload.fitted(np.array(asked, dtype=np.int64), known, slack, mass, self.replays)
            scores = workload.scores(truth, model, slack / float(_SLACK))
            epsilon, loss = self._split(share, channel)
            query = channel.pick(scores, epsilon, purpose=f"round {number}: query")
            answer = channel.add_noise(workload.answer(truth, query), loss, purpose=f"round {number}: answer")
            asked.append(query)
            answers.append(answer)
        return asked, answers

    def _workload(self, shape: tuple[int, ...], narrowest: int) -> Workload:
        if self.workload == "marginals":
            return MarginalWorkload.of(shape, self.order)
        cells = prod(shape)
        if self.workload == "tilings":
            return TilingWorkload(shape, tuple(tilings(cells, _LONGEST_RUN, MOST_QUERIES)))
        if self.candidates == "blocks":
            ranges = block_runs(cells, _LONGEST_RUN, narrowest, self.queries)
        elif self.candidates == "prefixes":
            ranges = prefixes(cells, narrowest, self.queries)
        else:
            ranges = random_ranges(cells, self.seed, narrowest, self.queries)
        return RangeWorkload(shape, *ranges)

    def _split(self, share: Fraction, channel: Channel) -> tuple[Fraction, Fraction]:
        """Return the pure ε of a round's pick, and what is left of its share for the answer."""
        usual = Fraction(1, 2) if self.workload == "ranges" else Fraction(1, 10)
        part = share * (usual if self.pick_share == "auto" else Fraction(self.pick_share))
        epsilon = channel.pure_epsilon(part)
        return epsilon, share - channel.pure_cost(epsilon)

    def _noise(self, share: Fraction, channel: Channel) -> float:
        """Return the scale of the noise of an answer, given a round's share of the budget."""
        _, loss = self._split(share, channel)
        return float(1 / loss) if channel.definition == "pure" else sqrt(1 / (2 * loss))

    def _rounds(self, mass: int, shape: tuple[int, ...], channel: Channel) -> int:
        """Return how many rounds there are: given, or so many that each has its part of the total."""
        if isinstance(self.rounds, int):
            return self.rounds
        if self.workload == "marginals":
            return max(_ROUNDS_OF_WHOLE, sum(cells > 1 for cells in shape))
        if self.workload == "tilings":
            return _ROUNDS_OF_WHOLE
        # An answer of one of k rounds has k times the noise of the only one; √k times if it is Gaussian.
        one = self._noise(channel.remaining, channel)
        power = 2.0 if channel.definition == "pure" else 1.5
        fitting = (mass / (_PARTS * one)) ** (1 / power)
        return max(_LEAST_CHOSEN, min(_ROUNDS_CHOSEN, prod(shape), int(fitting)))


def _arrays(total: NDArray[np.int64], asked: list[int], answers: list[NDArray[np.int64]]) -> dict[str, Array]:
    return {
        "total": total,
        "queries": np.array(asked, dtype=np.int64),
        "answers": np.concatenate([np.empty(0, dtype=np.int64), *answers]),
    }


# The workloads of ``mwem``: what can be asked, what the answer is, and weights that fit the answers.
#
# A *model* is what the answers so far make of the table: public, since it is computed from them and from
# the noisy total. All that is asked of the true counts is a whole number, or a vector of them, and
# scores are whole numbers too: the model's answers are rounded first.


_LEAST_CELL = 1e-6  # of an even share, as in the kernel of the ranges


class Workload(Protocol):
    """Queries: one record changes each by at most 1 in L1."""

    @property
    def size(self) -> int:
        """Number of queries."""

    def truth(self, counts: Integers) -> Any:
        """Return what makes true answers quick."""

    def answer(self, truth: Any, query: int) -> Integers:
        """Return the true answer to a query: a vector, of one number or more."""

    def length(self, query: int) -> int:
        """Return how many numbers the answer has."""

    def scores(self, truth: Any, model: Any, noise: float) -> Integers:
        """Return how far the model's answer to each query is from the truth; sensitivity 1."""

    def fitted(
        self, queries: Integers, answers: list[Floats], slack: float, total: float, passes: int
    ) -> Any:
        """Return the model after some passes of multiplicative weights over all answers."""

    def table(self, model: Any) -> Floats:
        """Return the model's cells, in the shape of the counts."""


@dataclass(frozen=True, eq=False)
class _RowWorkload:
    """Sums of cells in a row; a table of several dimensions is read row by row.

    The model is a pair: edges and masses of segments
    (``tabularium.mechanisms.histograms.mwem``).
    """

    shape: tuple[int, ...]

    def truth(self, counts: Integers) -> Integers:
        """Return the sums of the first 0, 1, 2, ... cells."""
        return _cumulated(counts.reshape(-1))

    def table(self, model: tuple[Integers, Floats]) -> Floats:
        """Return the cells."""
        edges, masses = model
        widths = np.diff(edges)
        return np.repeat(masses / widths, widths).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class RangeWorkload(_RowWorkload):
    """Single ranges of cells in a row.

    ``shape``: Of the counts. ``starts``, ``stops``: Shape (queries,).
    """

    starts: Integers
    stops: Integers

    @property
    def size(self) -> int:
        """Number of queries."""
        return self.starts.size

    def answer(self, truth: Integers, query: int) -> Integers:
        """Return one sum."""
        return truth[self.stops[query : query + 1]] - truth[self.starts[query : query + 1]]

    def length(self, query: int) -> int:
        """Return 1."""
        return 1

    def scores(self, truth: Integers, model: tuple[Integers, Floats], noise: float) -> Integers:
        """Return |sum - the model's sum|. The model's is between rounded sums of first cells."""
        start, stop = _rounded(self.starts, model), _rounded(self.stops, model)
        return np.abs(truth[self.stops] - truth[self.starts] - (stop - start))

    def fitted(
        self, queries: Integers, answers: list[Floats], slack: float, total: float, passes: int
    ) -> tuple[Integers, Floats]:
        """Return edges and masses. Answers to the same query are averaged."""

        asked, means = _averaged(queries, answers)
        flat = np.concatenate([np.empty(0), *means])
        cells = prod(self.shape)
        return fit_to_ranges(cells, self.starts[asked], self.stops[asked], flat, slack, total, passes)


@dataclass(frozen=True, eq=False)
class TilingWorkload(_RowWorkload):
    """Tilings of a row of cells by ranges of equal width: all sums at once, since no two ranges overlap.

    ``shape``: Of the counts. ``tilings``: Width and offset of each
    (``tabularium.mechanisms.histograms.mwem.tilings``).
    """

    tilings: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Number of queries."""
        return len(self.tilings)

    def answer(self, truth: Integers, query: int) -> Integers:
        """Return the sum of each range."""
        return np.diff(self._at_edges(truth, query))

    def length(self, query: int) -> int:
        """Return the number of ranges."""
        width, offset = self.tilings[query]
        return (prod(self.shape) - offset + width - 1) // width + (offset > 0)

    def scores(self, truth: Integers, model: tuple[Integers, Floats], noise: float) -> Integers:
        """Return Σ|sum - the model's sum| of each tiling, less what its own noise would sum to."""
        apart = truth - _rounded(np.arange(truth.size), model)
        misfits = [np.abs(np.diff(self._at_edges(apart, query))) for query in range(self.size)]
        return np.array([int(item.sum()) - _expected(noise, item.size) for item in misfits], dtype=np.int64)

    def fitted(
        self, queries: Integers, answers: list[Floats], slack: float, total: float, passes: int
    ) -> tuple[Integers, Floats]:
        """Return edges and masses. Answers to the same query are averaged."""

        cells = prod(self.shape)
        if not answers:
            return np.array([0, cells]), np.array([total])
        asked, means = _averaged(queries, answers)
        edges = [self._at_edges(np.arange(cells + 1), query) for query in asked.tolist()]
        return fit_to_tilings(edges, np.concatenate(means), slack, total, passes)

    def _at_edges(self, sums: Integers, query: int) -> Integers:

        return at_edges(sums, *self.tilings[query])


@dataclass(frozen=True, eq=False)
class MarginalWorkload:
    """Whole marginals of a table: sums over all axes but a few. The model is the table itself.

    ``shape``: Of the counts. ``marginals``: The axes that each marginal keeps, ascending.
    """

    shape: tuple[int, ...]
    marginals: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], order: int) -> MarginalWorkload:
        """Return the marginals of up to ``order`` axes; an axis of length 1 tells nothing."""
        long = [axis for axis, cells in enumerate(shape) if cells > 1]
        sizes = range(1, min(order, len(long)) + 1)
        return cls(shape, tuple(kept for size in sizes for kept in combinations(long, size)))

    @property
    def size(self) -> int:
        """Number of marginals."""
        return len(self.marginals)

    def truth(self, counts: Integers) -> list[Integers]:
        """Return all marginals of the counts."""
        return [self._marginal(counts, kept) for kept in self.marginals]

    def answer(self, truth: list[Integers], query: int) -> Integers:
        """Return the cells of one marginal."""
        return truth[query].reshape(-1)

    def length(self, query: int) -> int:
        """Return the number of cells of a marginal."""
        return prod(self.shape[axis] for axis in self.marginals[query])

    def scores(self, truth: list[Integers], model: Floats, noise: float) -> Integers:
        """Return Σ|cell - the model's cell| of each marginal, less what its own noise would sum to."""
        return np.array(
            [
                int(np.abs(exact - np.rint(self._marginal(model, kept)).astype(np.int64)).sum())
                - _expected(noise, exact.size)
                for exact, kept in zip(truth, self.marginals, strict=True)
            ],
            dtype=np.int64,
        )

    def fitted(
        self, queries: Integers, answers: list[Floats], slack: float, total: float, passes: int
    ) -> Floats:
        """Return the table: each marginal in turn scales its cells. Equal marginals are averaged."""
        asked, means = _averaged(queries, answers)
        table = np.full(self.shape, total / prod(self.shape))
        least = _LEAST_CELL * total / prod(self.shape)
        for _ in range(passes):
            for query, answer in zip(asked.tolist(), means, strict=True):
                kept = self.marginals[query]
                have = self._marginal(table, kept)
                wanted = np.maximum(answer.reshape(have.shape), np.minimum(have, slack))
                wanted *= total / wanted.sum()
                factors = np.divide(wanted, have, out=np.ones_like(have), where=have > 0)
                table *= np.expand_dims(factors, self._others(kept))
                # A negative answer is no reason to empty a cell for ever, however often it is replayed.
                np.maximum(table, least, out=table)
        return table

    def table(self, model: Floats) -> Floats:
        """Return the cells."""
        return model

    def _marginal(self, table: NDArray[Any], kept: tuple[int, ...]) -> NDArray[Any]:
        return np.asarray(table.sum(axis=self._others(kept)))

    def _others(self, kept: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in kept)


def _averaged(queries: Integers, answers: list[Floats]) -> tuple[Integers, list[Floats]]:
    """Return the different queries, in the order in which they were first asked, and their mean answers."""
    by_query: dict[int, list[Floats]] = {}
    for query, answer in zip(queries.tolist(), answers, strict=True):
        by_query.setdefault(query, []).append(answer)
    return np.array(list(by_query), dtype=np.int64), [np.mean(item, axis=0) for item in by_query.values()]


def _expected(noise: float, numbers: int) -> int:
    """Return what the noise of so many numbers sums to, within what a score can hold."""
    return min(round(noise * numbers), 1 << 61)


def _cumulated(cells: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of the first 0, 1, 2, ... cells."""
    return np.concatenate([np.zeros(1, dtype=cells.dtype), np.cumsum(cells)])


def _rounded(places: Integers, model: tuple[Integers, Floats]) -> Integers:
    """Return the model's mass left of each place, in whole numbers."""
    edges, masses = model
    return np.asarray(np.rint(np.interp(places, edges, _cumulated(masses))), dtype=np.int64)


Ranges = tuple[Integers, Integers]


def block_runs(cells: int, longest: int, narrowest: int, most: int) -> Ranges:
    """Return runs of 1 to ``longest`` neighbouring blocks, where blocks are halves, quarters and so on.

    The whole row is left out.

    ``narrowest``: Ranges with fewer cells are left out, but for the halves of the row. ``most``: Levels are
    added, from coarse to fine, until there would be more ranges than that; one in any case.
    """
    keys: Integers = np.empty(0, dtype=np.int64)
    blocks = 2
    while cells > 1:
        edges = np.arange(min(blocks, cells) + 1) * cells // min(blocks, cells)
        runs = [(edges[:-run], edges[run:]) for run in range(1, min(longest, edges.size - 2) + 1)]
        starts, stops = (np.concatenate(ends) for ends in zip(*runs, strict=True))
        wide = (stops - starts >= narrowest) | (blocks == 2)
        merged = np.union1d(keys, (starts * (cells + 1) + stops)[wide])
        if not wide.any() or (merged.size > most and keys.size):
            break
        keys = merged
        if blocks >= cells:
            break
        blocks *= 2
    return keys // (cells + 1), keys % (cells + 1)


def prefixes(cells: int, narrowest: int, most: int) -> Ranges:
    """Return the first 1, 2, ... cells, at most ``most`` of them, evenly spread; not the whole row."""
    low = min(narrowest, (cells + 1) // 2)
    number = min(most, cells - low)
    stops = low + np.arange(number, dtype=np.int64) * (cells - low) // max(1, number)
    return np.zeros_like(stops), stops


def random_ranges(cells: int, seed: int, narrowest: int, number: int) -> Ranges:
    """Return up to ``number`` different ranges with ends that are spread at random, by a public seed."""
    if cells == 1:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    words = _scrambled(np.arange(2 * number, dtype=np.uint64) + (np.uint64(seed) << np.uint64(32)))
    ends = (words.astype(np.int64) * (cells + 1)) >> 32
    one, other = ends[:number], ends[number:]
    starts, stops = np.minimum(one, other), np.maximum(one, other)
    wide = (stops - starts >= min(narrowest, cells // 2)) & (stops > starts) & (stops - starts < cells)
    keys = np.unique((starts * (cells + 1) + stops)[wide])
    if keys.size == 0:
        keys = np.array([cells // 2, cells // 2 * (cells + 1) + cells])  # the two halves
    return keys // (cells + 1), keys % (cells + 1)


def tilings(cells: int, longest: int, most: int) -> list[tuple[int, int]]:
    """Return (width, offset) of tilings of a row by ranges of equal width, those at the ends maybe shorter.

    Widths are 1 to ``longest`` times a power of two 2^k, offsets multiples of 2^k: the ranges of a tiling are
    runs of neighbouring blocks. Sorted; widths below cells/``most`` are left out.
    """
    least = -(-cells // most)
    result = set()
    block = 1
    while block < cells:
        for run in range(1, longest + 1):
            if least <= run * block < cells:
                result |= {(run * block, offset) for offset in range(0, run * block, block)}
        block *= 2
    return sorted(result)


def at_edges(sums: Integers, width: int, offset: int) -> Integers:
    """Return what stands at the edges of a tiling: at 0, offset, offset + width, ..., and at the end.

    ``sums``: Shape (cells + 1,), one number for each place where a range may end.
    """
    first = sums[: 1 if offset else 0]
    return np.concatenate([first, sums[offset:-1:width], sums[-1:]])


def _scrambled(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 32 bits of each word after SplitMix64's scrambling (Steele, Lea, Flood 2014)."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (words ^ (words >> np.uint64(31))) >> np.uint64(32)


_LEAST = 1e-6  # of the uniform weight: what repeated contradictions leave of a segment


def fit_to_ranges(
    cells: int, starts: Integers, stops: Integers, answers: Floats, slack: float, total: float, passes: int
) -> tuple[Integers, Floats]:
    """Return the segments of a row and their masses after some passes over all answers, from equal weights.

    Parameters
    ----------
    cells
        Number of cells.
    starts, stops
        Shape (answers,): ranges that are neither empty nor the whole row.
    answers
        What was measured there.
    slack
        No mass inside or outside a range is lowered below it.
    total
        N: what all masses sum to.
    passes
        How often every answer is replayed.

    Returns
    -------
    edges
        int64, shape (segments + 1,), from 0 to ``cells``.
    masses
        Shape (segments,).
    """
    edges = np.unique(np.concatenate([np.array([0, cells]), starts, stops]))
    masses = np.diff(edges) * (total / cells)
    first, end = np.searchsorted(edges, starts), np.searchsorted(edges, stops)
    replay_ranges(masses, first, end, answers, slack, total, passes)
    return edges, masses


def fit_to_tilings(
    tilings: list[Integers], answers: Floats, slack: float, total: float, passes: int
) -> tuple[Integers, Floats]:
    """Return the segments and masses for answers about all ranges of several tilings of the row.

    ``tilings``: The edges of the ranges of each, from 0 to the number of cells; at least one tiling.
    ``answers``: For each range of each tiling, one after the other.
    """
    edges = np.unique(np.concatenate(tilings))
    masses = np.diff(edges) * (total / edges[-1])
    bounds = np.concatenate([np.searchsorted(edges, tiling) for tiling in tilings])
    ends = np.cumsum(np.array([tiling.size for tiling in tilings]))
    replay_tilings(masses, bounds, ends, answers, slack, total, passes)
    return edges, masses


@compiled
def replay_ranges(
    masses: Floats, first: Integers, end: Integers, answers: Floats, slack: float, total: float, passes: int
) -> None:
    """Fit the masses, in place, to the answers about segments ``first`` to ``end - 1``, one by one."""
    least = masses * _LEAST
    for _ in range(passes):
        for query in range(answers.size):
            inside = 0.0
            outside = 0.0
            for place in range(masses.size):
                if first[query] <= place < end[query]:
                    inside += masses[place]
                else:
                    outside += masses[place]
            wanted = max(answers[query], min(inside, slack))
            wanted = min(wanted, total - min(outside, slack))
            within, beyond = wanted / inside, (total - wanted) / outside
            for place in range(masses.size):
                factor = within if first[query] <= place < end[query] else beyond
                masses[place] = max(masses[place] * factor, least[place])


@compiled
def replay_tilings(
    masses: Floats, bounds: Integers, ends: Integers, answers: Floats, slack: float, total: float, passes: int
) -> None:
    """Fit the masses, in place, to one tiling after the other, whose edges among segments are ``bounds``."""
    least = masses * _LEAST
    wanted = np.empty(masses.size)
    for _ in range(passes):
        begin, answer = 0, 0
        for tiling in range(ends.size):
            ranges = ends[tiling] - begin - 1
            whole = 0.0
            for one in range(ranges):
                inside = 0.0
                for place in range(bounds[begin + one], bounds[begin + one + 1]):
                    inside += masses[place]
                mass = max(answers[answer + one], min(inside, slack))
                wanted[one] = mass / inside
                whole += mass
            for one in range(ranges):
                factor = wanted[one] * (total / whole)
                for place in range(bounds[begin + one], bounds[begin + one + 1]):
                    masses[place] = max(masses[place] * factor, least[place])
            begin, answer = ends[tiling], answer + ranges
