"""Mechanisms that run per region: what a record, a unit in several regions, and a moved record can lose."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.accounting import PrivacyLoss, group_size
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.channel.replay.replay_audit import Audit
from tabularium.mechanisms.histograms.per_region import PerRegion
from tabularium.mechanisms.mechanism import Counts
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import ONE, OTHER, REGIONS, with_records
from tests.audit.estimates import FEWER_RUNS, RUNS, loss_from_outputs
from tests.audit.replays import FORCES, NotPrivateError, judge
from tests.audit.twins.twin import Drawn

BUDGET = Fraction(1, 2)
MECHANISMS: dict[str, dict[str, Any]] = {
    "denoise": {},  # one draw for all
    "dawa": {},
    "p_hpartition": {},
    "kd_tree": {},
    "structure_first": {"largest_count": 30},  # which has parallel scopes of its own
}


ALWAYS = [("dawa", "pure"), ("denoise", "zcdp")]
OFTEN = [(name, definition) for name in MECHANISMS for definition in ("pure", "zcdp")]
RARE = [pytest.param(*each, marks=pytest.mark.audit) for each in OFTEN if each not in ALWAYS]


@pytest.mark.parametrize(("name", "definition"), [*ALWAYS, *RARE])
def test_a_record_loses_no_more_than_the_budget_of_one_region(name: str, definition: Definition) -> None:
    """Also the first record of an empty region, and whatever comes out."""
    mechanism, losses = PerRegion(name, MECHANISMS[name]), []
    with Audit(mechanism) as processes:
        for seed, force in enumerate(FORCES.values()):
            place = ((2, 3), (0, 0))[seed % 2]
            found = judge(
                *(mechanism, REGIONS, with_records(place)),
                **{"budget": BUDGET, "definition": definition, "force": force, "seed": seed},
                processes=processes,
            )
            losses.append(found.loss)
    assert max(losses) >= 0.4 * float(BUDGET), "no more noise than is needed"


@pytest.mark.audit
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_record_of_any_of_many_regions_loses_no_more(name: str) -> None:
    counts = generator(9).poisson(0.4, (60, 30)).astype(np.int64)
    for seed, region in enumerate(range(0, 60, 7)):
        neighbour = counts.copy()
        neighbour[region, seed] += 1
        judge(
            PerRegion(name, MECHANISMS[name]), counts, neighbour, budget=BUDGET, definition="pure", seed=seed
        )


@pytest.mark.parametrize(("name", "definition"), ALWAYS)
def test_a_unit_in_several_regions_stays_within_its_budget(name: str, definition: Definition) -> None:
    """Three records in three regions, or in one; the channel holds what one record may cost."""
    record = PrivacyLoss(BUDGET, definition).for_record(3).amount
    for places in ([(0, 0), (1, 5), (2, 3)], [(2, 3), (2, 3), (2, 4)]):
        neighbour = with_records(*places)
        found = judge(PerRegion(name), REGIONS, neighbour, budget=record, definition=definition, group=3)
        assert found.loss <= float(BUDGET) * (1 + 1e-9)


def test_a_replaced_record_may_move_to_another_region() -> None:
    """One goes and one comes: two records, each in a region of its own, and each pays."""
    records = group_size(1, "replace")
    assert records == 2
    record = PrivacyLoss(BUDGET, "pure").for_record(records).amount
    there, here = with_records((0, 1)), with_records((2, 3))
    found = judge(PerRegion("dawa"), there, here, budget=record, definition="pure", group=records)
    assert found.loss <= float(BUDGET) * (1 + 1e-9)
    with pytest.raises(NotPrivateError):
        judge(PerRegion("denoise"), there, here, budget=BUDGET, definition="pure")


def test_the_whole_budget_for_each_region_of_a_unit_would_be_noticed() -> None:
    """Regions are no partition of units: a unit's records in different ones are paid for one by one."""
    with pytest.raises(NotPrivateError):
        judge(
            PerRegion("denoise"),
            REGIONS,
            with_records((0, 0), (1, 5), (2, 3)),
            budget=BUDGET,
            definition="pure",
        )


# --- mistakes that such a mechanism invites -----------------------------------------------------------


@dataclass(frozen=True)
class SkipsEmptyRegions(PerRegion):
    """Nothing is measured where nobody is."""

    mechanism: str = "ahp"

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        drawn = {}
        with channel.parallel(channel.remaining, cells=counts.size, purpose="regions", fold=True) as scope:
            for region, table in enumerate(counts):
                if table.any():
                    branch = scope.branch(np.arange(table.size) + region * table.size, str(region))
                    drawn[f"{region}"] = branch.add_noise(table, branch.remaining, purpose="cells")
        return drawn, {}


@dataclass(frozen=True)
class OneNoiseForAll(PerRegion):
    """The noise of one region is put on every region."""

    mechanism: str = "denoise"

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noise = channel.add_noise(np.zeros_like(counts[0]), channel.remaining, purpose="cells")
        return {"cells": counts + noise}, {"notes": [{}]}


@dataclass(frozen=True)
class LooksNextDoor(PerRegion):
    """A region is measured together with the one beside it."""

    mechanism: str = "denoise"

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        both = counts + np.roll(counts, 1, axis=0)
        return {"cells": channel.add_noise(both, channel.remaining, purpose="cells")}, {"notes": [{}]}


@dataclass(frozen=True)
class OrderOfTheCounts(PerRegion):
    """The fullest region is drawn first."""

    mechanism: str = "ahp"

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        order = np.argsort(-counts.sum(axis=1), kind="stable")
        arrays, meta = super().draw(counts[order], channel)
        return arrays | {"order": order}, meta


@pytest.mark.parametrize("kind", [SkipsEmptyRegions, OneNoiseForAll, LooksNextDoor, OrderOfTheCounts])
def test_the_broken_twin_is_caught(kind: type[PerRegion]) -> None:
    neighbour = REGIONS.copy()
    neighbour[2, 3] += 1
    if kind is OrderOfTheCounts:
        neighbour = REGIONS.copy()
        neighbour[np.argsort(REGIONS.sum(axis=1))[-2]] += 40
    with pytest.raises(NotPrivateError):
        judge(kind(), REGIONS, neighbour, budget=BUDGET, definition="pure", group=1)


# --- what the outputs show ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "definition", "runs"),
    [
        ("identity", "pure", FEWER_RUNS),
        pytest.param("identity", "pure", RUNS, marks=pytest.mark.audit),
        pytest.param("gaussian", "zcdp", RUNS, marks=pytest.mark.audit),
    ],
)
def test_the_outputs_give_no_more_away_than_the_budget(name: str, definition: Definition, runs: int) -> None:
    budget = Fraction(1) if definition == "pure" else Fraction(1, 2)
    found = loss_from_outputs(PerRegion(name), ONE, OTHER, budget, definition, runs=runs)
    least = 0 if runs < RUNS else Fraction(1, 2 if definition == "pure" else 10)
    assert least * budget <= found <= budget


@pytest.mark.audit
@pytest.mark.parametrize("name", ["uniform", "ahp", "denoise"])
def test_the_outputs_of_others_give_no_more_away_either(name: str) -> None:
    assert loss_from_outputs(PerRegion(name), ONE, OTHER, Fraction(1), "pure", runs=FEWER_RUNS) <= 1


def test_the_whole_budget_for_each_region_of_a_unit_shows_in_the_outputs() -> None:
    """A unit with a record in each of twelve regions, and the budget of a unit for each of them."""
    counts = np.full((12, 1), 4)
    found = loss_from_outputs(PerRegion("identity"), counts, counts + 1, Fraction(1), "pure", runs=FEWER_RUNS)
    assert found > 1
