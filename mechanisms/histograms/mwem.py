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
from math import floor, prod, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.mwem_workloads import (
    MarginalWorkload,
    RangeWorkload,
    TilingWorkload,
    Workload,
    block_runs,
    prefixes,
    random_ranges,
    tilings,
)
from tabularium.mechanisms.histograms.noisy_sums import addable
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, whole_number
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
        alone = Fraction(1, 2) if self.workload == "ranges" else Fraction(1, 10)
        part = share * (alone if self.pick_share == "auto" else Fraction(self.pick_share))
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
