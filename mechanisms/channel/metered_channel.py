"""The metered noise channel: the only door through which a mechanism meets randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.accounting.losses import epsilon_within, root_above
from tabularium.mechanisms.accounting.transcript import Definition, Event, Primitive
from tabularium.mechanisms.arrays import LARGEST_SUM, Integers
from tabularium.mechanisms.channel.arguments import (
    Amount,
    check_integers,
    exact,
    gaps_below_best,
    gaps_in_groups,
    lattice_sensitivity,
    on_lattice,
)
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.least_noisy_partition import checked_intervals
from tabularium.mechanisms.channel.noise_source import Source
from tabularium.mechanisms.channel.scopes import FoldedBranches, Parallel, SharedTranscript
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise.discrete_gaussian import LARGEST_VARIANCE
from tabularium.mechanisms.noise.discrete_laplace import LARGEST_SCALE

_ONE_GROUP = np.zeros(1, dtype=np.int64)


class Channel:
    """A budget, a source of noise, and a transcript. Opened by ``SecureChannel`` and its kin.

    Each primitive charges its loss first and draws second: a call that would overspend raises with nothing
    drawn. In a zCDP channel a draw of pure ε costs ρ = ε²/2 (Bun & Steinke 2016, Proposition 1.4).

    Adaptive use is sound: the losses may depend on earlier outputs as long as they sum to the budget (a
    privacy filter: Rogers et al. 2016 for pure, Feldman & Zrnic 2021 for concentrated privacy).
    """

    def __init__(
        self,
        meter: Meter,
        source: Source,
        definition: Definition,
        *,
        transcript: SharedTranscript | None = None,
        place: ScopePath,
    ) -> None:
        self._meter = meter
        self._source = source
        self._definition: Definition = definition
        self._shared = transcript or SharedTranscript(source.label)
        self._place = place
        self._begun = self._shared.place()

    @property
    def definition(self) -> Definition:
        """``"pure"`` (amounts are ε) or ``"zcdp"`` (amounts are ρ)."""
        return self._definition

    @property
    def budget(self) -> Fraction:
        """What the channel was opened with."""
        return self._meter.total

    @property
    def remaining(self) -> Fraction:
        """What can still be spent."""
        return self._meter.remaining

    @property
    def insecure(self) -> bool:
        """Whether the noise is predictable: a release drawn with it may not be published."""
        return self._source.insecure

    @property
    def transcript(self) -> tuple[Event, ...]:
        """The events drawn through this channel and its children, in order."""
        path, later = self._place.path, self._shared.since(self._begun)
        return tuple(event for event in later if not path or event.purpose.startswith(path + "/"))

    def grant(self, amount: Amount, purpose: str) -> Channel:
        """Return a child channel holding ``amount``, taken from this one now; what it leaves is not returned.

        Raises
        ------
        BudgetExceeded
            More than remains.
        """
        share = exact(amount, purpose)
        self._meter.charge(share, self._place.named(purpose))
        place = replace(self._place, path=self._place.named(purpose))
        return self._child(Meter(share, above=self._meter), place)

    @contextmanager
    def parallel(
        self, amount: Amount, *, cells: int, purpose: str, fold: bool = False
    ) -> Iterator[Parallel[Channel]]:
        """Open a scope whose branches look at disjoint bins, each with up to ``amount``.

        A record is in one bin, so the scope costs what its dearest branch spent; the rest of ``amount``
        comes back when it closes.

        Parameters
        ----------
        amount
            Reserved from this channel now; what each branch may spend.
        cells
            Number of bins that the branches divide among themselves.
        fold
            Branches run one after another: each ends the one before it. In the transcript one of those
            that drew the same stands for all (``Event.alike``).
        """
        share = exact(amount, purpose)
        path = self._place.named(purpose)
        if cells < 1:
            raise MechanismError("a parallel scope needs at least one bin", where=path)
        self._meter.charge(share, path)
        opened, depth = self._shared.open_scope(), len(self._place.branches)
        folded = FoldedBranches(self._shared, path, depth) if fold else None

        def open_branch(name: str, branch: int) -> tuple[Channel, Meter]:
            if folded is not None:
                folded.begin(name)
            meter = Meter(share, above=self._meter)
            place = ScopePath(f"{path}/{name}", (*self._place.branches, (opened, branch)))
            return self._child(meter, place), meter

        scope = Parallel(cells, open_branch, path, folded)
        try:
            yield scope
        finally:
            if folded is not None:
                folded.close()
            self._meter.refund(share - scope.close())

    def laplace(
        self, values: ArrayLike, epsilon: Amount, *, sensitivity: Amount = 1, purpose: str
    ) -> Integers:
        """Return integer ``values`` plus discrete Laplace noise of scale sensitivity/ε.

        Parameters
        ----------
        values
            Integer array of any shape; cut off at ±2^61.
        epsilon
            Pure ε to spend (ε²/2 of a zCDP channel).
        sensitivity
            Largest L1 change of ``values`` that one record can make.

        Raises
        ------
        BudgetExceeded
            The channel holds less; nothing was drawn.
        """
        spend, bound = exact(epsilon, purpose), exact(sensitivity, purpose)
        integers = check_integers(values, purpose)
        event = self._laplace_event("discrete_laplace", spend, bound, integers.shape, purpose)
        return self._source.noise(integers, self._charge(event))

    def gaussian(self, values: ArrayLike, rho: Amount, *, sensitivity: Amount = 1, purpose: str) -> Integers:
        """Return integer ``values`` plus discrete Gaussian noise, σ² = sensitivity²/2ρ.

        Parameters
        ----------
        values
            Integer array of any shape; cut off at ±2^61.
        rho
            zCDP ρ to spend; only in a zCDP channel.
        sensitivity
            Largest L2 change of ``values`` that one record can make.

        Raises
        ------
        BudgetExceeded
            The channel holds less; nothing was drawn.
        """
        spend, bound = exact(rho, purpose), exact(sensitivity, purpose)
        integers = check_integers(values, purpose)
        event = self._gaussian_event("discrete_gaussian", spend, bound, integers.shape, purpose)
        return self._source.noise(integers, self._charge(event))

    def add_noise(self, values: ArrayLike, loss: Amount, *, touched: int = 1, purpose: str) -> Integers:
        """Return integers with the noise of this channel's definition: Laplace if pure, else Gaussian.

        Parameters
        ----------
        values
            As for ``laplace``.
        loss
            ε of a pure channel, ρ of a zCDP channel.
        touched
            How many of the values one record changes, each by 1: the L1 sensitivity, and the square of the L2
            one.
        """
        if self._definition == "pure":
            return self.laplace(values, loss, sensitivity=touched, purpose=purpose)
        return self.gaussian(values, loss, sensitivity=root_above(touched), purpose=purpose)

    def pure_epsilon(self, amount: Fraction) -> Fraction:
        """Return the ε of a choice, or of Laplace noise, that ``amount`` of the budget pays for."""
        return amount if self._definition == "pure" else epsilon_within(amount)

    def pure_cost(self, epsilon: Fraction) -> Fraction:
        """Return what a draw of pure ε costs this channel: ε, or ρ = ε²/2."""
        return epsilon if self._definition == "pure" else epsilon**2 / 2

    def lattice(
        self,
        values: ArrayLike,
        loss: Amount,
        *,
        sensitivity: Amount,
        width: Amount,
        error: Amount = 0,
        noise: Literal["laplace", "gaussian"] | None = None,
        purpose: str,
    ) -> NDArray[np.float64]:
        """Return real ``values``, rounded down to a lattice, plus discrete noise on that lattice.

        A value and its neighbour's may round apart by one step more than they differ, and may each have
        been computed with an error, so z coordinates have, in steps of the lattice, L1 sensitivity
        Δ/g + z(1 + 2η/g), and L2 sensitivity Δ/g + √z·(1 + 2η/g).

        Parameters
        ----------
        values
            Real array of any shape (z = its size).
        loss
            ε for Laplace noise (ε²/2 of a zCDP channel), ρ for Gaussian noise.
        sensitivity
            Δ: the largest L1 (Laplace) or L2 (Gaussian) change of the exact values by one record.
        width
            g, a power of two (2^k or 1/2^k), chosen without looking at the data.
        error
            η: how far each computed value may lie from the exact one; public.
        noise
            By default Laplace in a pure channel and Gaussian in a zCDP channel.
        """
        spend, step = exact(loss, purpose), exact(width, purpose)
        kind = noise or ("laplace" if self._definition == "pure" else "gaussian")
        points = on_lattice(values, step, purpose)
        bound = lattice_sensitivity(
            exact(sensitivity, purpose),
            step,
            exact(error, purpose, zero=True),
            size=points.size,
            squared=kind == "gaussian",
        )
        if kind == "laplace":
            event = self._laplace_event("lattice_laplace", spend, bound, points.shape, purpose)
        else:
            event = self._gaussian_event("lattice_gaussian", spend, bound, points.shape, purpose)
        noisy = self._source.noise(points, self._charge(replace(event, width=step)))
        return noisy.astype(np.float64) * float(step)

    def pick(
        self,
        scores: ArrayLike,
        epsilon: Amount,
        *,
        sensitivity: Amount = 1,
        error: Amount = 0,
        method: Literal["permute_and_flip", "exponential"] = "permute_and_flip",
        purpose: str,
    ) -> int:
        """Return the index of one candidate, the likelier the higher its score.

        Parameters
        ----------
        scores
            Shape (m,). Integers are used exactly. Floats are rounded down to a lattice far finer than the
            sensitivity, and need the bound on their error in ``error``.
        epsilon
            Pure ε to spend (ε²/2 of a zCDP channel).
        sensitivity
            Δ: the largest change of any one score by one record.
        error
            η: how far a computed score may lie from the exact one; public. The draw uses Δ + 2η, and refuses
            when that adds more than 1 % to the noise.
        method
            Permute-and-flip (McKenna & Sheldon 2020) is never worse than the exponential mechanism.
        """
        spend, bound = exact(epsilon, purpose), exact(sensitivity, purpose)
        if method not in {"permute_and_flip", "exponential"}:
            raise MechanismError(
                "no such way to choose", where=purpose, hint="use permute_and_flip or exponential"
            )
        gaps, unit, bound = gaps_below_best(scores, bound, exact(error, purpose, zero=True), purpose)
        event = self._choice_event(method, spend, bound, gaps.shape, purpose)
        rate = spend / (2 * bound)  # a coin for a candidate: exp(-rate · gap in score)
        return int(self._source.pick(gaps, _ONE_GROUP, rate * unit, self._charge(event))[0])

    def pick_each(
        self,
        scores: ArrayLike,
        starts: ArrayLike,
        epsilon: Amount,
        *,
        sensitivity: Amount = 1,
        purpose: str,
    ) -> Integers:
        """Return one candidate of every group by permute-and-flip, all in one draw.

        A choice in a group whose scores move by δ_g loses at most ε·δ_g/Δ, and the choices are independent:
        together they lose ε when the δ_g of one record sum to Δ. For groups that look at disjoint bins that
        is the largest change of a score in one group.

        int64, shape (groups,): the place of the chosen candidate within its group.

        Parameters
        ----------
        scores
            Integers of shape (m,), the groups one after the other.
        starts
            Shape (groups,): the first position of each group, ascending from 0; no group is empty.
        epsilon
            Pure ε to spend on all of it (ε²/2 of a zCDP channel).
        sensitivity
            Δ: what the largest changes of a score in each group, by one record, can sum to.
        """
        spend, bound = exact(epsilon, purpose), exact(sensitivity, purpose)
        gaps, firsts = gaps_in_groups(scores, starts, purpose)
        shape = (firsts.size, gaps.size)
        event = self._choice_event("permute_and_flip", spend, bound, shape, purpose)
        return self._source.pick(gaps, firsts, spend / (2 * bound), self._charge(event))

    def partition(
        self,
        costs: ArrayLike,
        starts: ArrayLike,
        stops: ArrayLike,
        epsilon: Amount,
        *,
        cells: int,
        sensitivity: Amount,
        purpose: str,
    ) -> Integers:
        """Return the partition of a row of bins whose intervals' noisy costs add up to the least.

        See ``tabularium.mechanisms.channel.least_noisy_partition`` for the proof; only the partition comes
        out.

        int64: the numbers of the chosen intervals, from left to right.

        Parameters
        ----------
        costs
            Integers, shape (m,): the cost of each interval on offer.
        starts, stops
            Integers, shape (m,): the half-open intervals, within range(cells), each single bin among them.
        epsilon
            Pure ε to spend (ε²/2 of a zCDP channel). The noise has scale 2Δ/ε.
        cells
            Number of bins.
        sensitivity
            Δ: the most by which one record changes the cost of an interval that holds its bin. It must not
            change any other.
        """
        spend, bound = exact(epsilon, purpose), exact(sensitivity, purpose)
        cost, start, stop = checked_intervals(costs, starts, stops, cells, purpose)
        if 2 * bound / spend * cells > LARGEST_SUM >> 12:
            raise MechanismError(
                "the noise of a partition of so many bins would overflow",
                where=purpose,
                hint="spend more on it",
            )
        event = self._choice_event("least_noisy_partition", spend, bound, cost.shape, purpose)
        return self._source.partition(cost, start, stop, cells, self._charge(event))

    def _laplace_event(
        self, primitive: Primitive, epsilon: Fraction, bound: Fraction, shape: tuple[int, ...], purpose: str
    ) -> Event:
        """Return a draw of Laplace noise of scale Δ/ε."""
        scale = bound / epsilon
        if scale > LARGEST_SCALE:
            raise MechanismError("the noise scale would exceed 2^40", where=purpose, hint="spend more on it")
        return self._event(
            primitive,
            purpose,
            loss=self.pure_cost(epsilon),
            sensitivity=bound,
            scale_squared=scale**2,
            shape=shape,
        )

    def _gaussian_event(
        self, primitive: Primitive, rho: Fraction, bound: Fraction, shape: tuple[int, ...], purpose: str
    ) -> Event:
        """Return a draw of Gaussian noise, σ² = Δ²/2ρ."""
        if self._definition != "zcdp":
            raise MechanismError(
                "Gaussian noise is not pure differential privacy",
                where=purpose,
                hint="open the channel with definition zcdp, or use Laplace noise",
            )
        variance = bound**2 / (2 * rho)
        if variance > LARGEST_VARIANCE:
            raise MechanismError("the noise scale would exceed 2^26", where=purpose, hint="spend more on it")
        return self._event(
            primitive, purpose, loss=rho, sensitivity=bound, scale_squared=variance, shape=shape
        )

    def _choice_event(
        self, method: Primitive, epsilon: Fraction, bound: Fraction, shape: tuple[int, ...], purpose: str
    ) -> Event:
        """Return a choice by scores or by noisy costs, of scale 2Δ/ε."""
        return self._event(
            method,
            purpose,
            loss=self.pure_cost(epsilon),
            sensitivity=bound,
            scale_squared=(2 * bound / epsilon) ** 2,
            shape=shape,
        )

    def _event(self, primitive: Primitive, purpose: str, **numbers: Any) -> Event:
        return Event(
            primitive=primitive,
            definition=self._definition,
            purpose=self._place.named(purpose),
            branches=self._place.branches,
            **numbers,
        )

    def _child(self, meter: Meter, place: ScopePath) -> Channel:
        return Channel(meter, self._source, self._definition, transcript=self._shared, place=place)

    def _charge(self, event: Event) -> Event:
        """Take the event's loss from the budget, then write it down. Nothing has been drawn yet."""
        self._meter.charge(event.loss, event.purpose)
        self._shared.write(event)
        return event

    def __reduce__(self) -> Any:
        raise MechanismError("a noise channel cannot be copied or stored", where="channel")


@dataclass(frozen=True, slots=True)
class ScopePath:
    """Where a channel stands below the one that was opened."""

    path: str = ""
    branches: tuple[tuple[str, int], ...] = ()

    def named(self, purpose: str) -> str:
        """Return the whole path of ``purpose``."""
        return f"{self.path}/{purpose}" if self.path else purpose


# What a mechanism sees of its channel: the primitives and what is left, not where the noise comes from.
#
# A mechanism that could tell an audit from a release could behave in the one and leak in the other. So it
# is handed a façade, which looks the same before a secure, a seeded and a replayed channel: no attribute,
# public or private, leads to the source, to its label, or to whether the noise is predictable. (Python has
# no walls: frames and closures can be dug through. That is no mistake that anybody makes by chance.)


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
        """The events so far, their parallel scopes only by number, without the label of the source."""
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
