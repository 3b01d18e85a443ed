"""PrivHist with prevalences for counts: private too, although neighbours' arrays differ in their shapes."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel import replay
from tabularium.mechanisms.channel.replay.replay_audit import Audit
from tabularium.mechanisms.histograms.privhist import PrivHist, prevalences
from tests.audit.cases import CASES
from tests.audit.replays import BUDGETS, FORCES, edge_pairs, judge, made_up
from tests.sizes import runs


def given_as(counts: np.ndarray, form: str) -> np.ndarray:
    """The same counts in the other form; an array without any record still has a pair."""
    if form == "counts":
        return counts
    pairs = prevalences(counts)
    return pairs if pairs.size else np.zeros((1, 2), dtype=np.int64)


def test_prevalences_are_private_too() -> None:
    """The arrays have different shapes on the two sides, and neither events nor results may show it."""
    mechanism = build("privhist", form="prevalences")
    with Audit(mechanism) as processes:
        for number, (counts, more) in list(enumerate(edge_pairs(CASES["privhist"])))[:: runs(10, 5)]:
            force = list(FORCES.values())[number % len(FORCES)]
            pair = given_as(counts, "prevalences"), given_as(more, "prevalences")
            budget = BUDGETS[number % len(BUDGETS)]
            options: Any = {"budget": budget, "definition": "pure", "force": force}
            found = judge(mechanism, *pair, **options, processes=processes)
            assert found.loss <= budget * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_any_prevalences_and_one_record_more(definition: Definition) -> None:
    mechanism = build("privhist", form="prevalences")

    @settings(max_examples=runs(10, 25), deadline=None, derandomize=True, database=None)
    @given(st.data())
    def search(data: st.DataObject) -> None:
        sizes = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=12))
        place = data.draw(st.integers(0, len(sizes) - 1))
        more = [size + (place == at) for at, size in enumerate(sizes)]
        pair = [given_as(np.array(each), "prevalences") for each in (sizes, more)]
        for order in (pair, pair[::-1]):
            judge(mechanism, *order, **options, force=made_up(data), processes=processes)

    options: Any = {"budget": Fraction(7, 3), "definition": definition}
    with Audit(mechanism) as processes:
        search()


def test_both_forms_ask_for_the_same_draws() -> None:
    counts = np.array([[5, 0, 2], [2, 2, 90]])
    found = []
    for form in ("counts", "prevalences"):
        given_in = given_as(counts, form)
        found.append(replay(build("privhist", form=form), given_in, given_in, 1, 5))
    assert [run.loss for run in found] == [0, 0]
    assert [event for event, _ in found[0].losses] == [event for event, _ in found[1].losses]


@pytest.mark.parametrize("form", ["counts", "prevalences"])
def test_huge_counts(form: str) -> None:
    """Whole budget, no more, where the sums are largest and the blocks are at their widest."""
    counts = np.array([LARGEST_COUNT, 3, 3, LARGEST_COUNT - 1])
    more = np.array([LARGEST_COUNT, 3, 3, LARGEST_COUNT])
    for budget in (Fraction(1, 2), Fraction(2)):
        found = replay(build("privhist", form=form), given_as(counts, form), given_as(more, form), budget, 1)
        assert found.loss == pytest.approx(float(budget))


def test_a_leak_in_the_shape_is_seen() -> None:
    """Events must not say how many distinct counts there are: this would be what the form leaks."""

    class Tells(PrivHist):
        def draw(self, counts: Any, channel: Any) -> Any:
            arrays, meta = super().draw(counts, channel)
            return arrays, meta | {"distinct": int(counts.shape[0])}

    one, more = (given_as(np.array(each), "prevalences") for each in ([3, 3], [3, 4]))
    assert replay(Tells(form="prevalences"), one, more, 1, 0).loss == inf
