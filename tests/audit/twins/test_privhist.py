"""The audit catches PrivHist when it is broken, and passes it in both forms of its input."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms import build
from mechanisms.accounting.transcript import Definition
from mechanisms.channel import replay
from mechanisms.histograms.privhist.run_lengths import prevalences
from mechanisms.mechanism import LARGEST_COUNT
from tests.audit.cases import CASES
from tests.audit.replays import BUDGETS, FORCES, NotPrivateError, audit, edge_pairs, judge, made_up
from tests.audit.twins_privhist import TWINS, OverlappingBlocks, PrivHistTwin

AS_DRAWN = FORCES["as drawn"]


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: Any) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(broken=True), kind.case, "pure", shrink=False)


@pytest.mark.parametrize("kind", [PrivHistTwin, *TWINS[-2:]], ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: Any) -> None:
    audit(kind(broken=False), kind.case, "pure", examples=10, every=5)


def test_steps_as_they_should_be_pass() -> None:
    """The base of the twins does by itself what each of them breaks."""
    audit(PrivHistTwin(broken=True), PrivHistTwin.case, "pure", examples=8, every=7)


def test_a_record_in_two_blocks_costs_twice() -> None:
    counts, more = np.array([40, 40, 1, 3]), np.array([40, 40, 1, 4])
    lost = [replay(OverlappingBlocks(broken=broken), counts, more, 2, 0).loss for broken in (True, False)]
    assert lost == [pytest.approx(0.2 + 2 * 1.8), pytest.approx(2)]


# --- prevalences ------------------------------------------------------------------------------------


def given_as(counts: np.ndarray, form: str) -> np.ndarray:
    """The same counts in the other form; an array without any record still has a pair."""
    if form == "counts":
        return counts
    runs = prevalences(counts)
    return runs if runs.size else np.zeros((1, 2), dtype=np.int64)


def test_prevalences_are_private_too() -> None:
    """The arrays have different shapes on the two sides, and neither events nor results may show it."""
    mechanism = build("privhist", form="prevalences")
    for number, (counts, more) in list(enumerate(edge_pairs(CASES["privhist"])))[::5]:
        force = list(FORCES.values())[number % len(FORCES)]
        pair = given_as(counts, "prevalences"), given_as(more, "prevalences")
        budget = BUDGETS[number % len(BUDGETS)]
        assert judge(mechanism, *pair, budget=budget, definition="pure", force=force).loss <= budget * (
            1 + Fraction(1, 10**9)
        )


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_any_prevalences_and_one_record_more(definition: Definition) -> None:
    mechanism = build("privhist", form="prevalences")

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def search(data: st.DataObject) -> None:
        sizes = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=12))
        place = data.draw(st.integers(0, len(sizes) - 1))
        more = [size + (place == at) for at, size in enumerate(sizes)]
        pair = [given_as(np.array(each), "prevalences") for each in (sizes, more)]
        for order in (pair, pair[::-1]):
            judge(mechanism, *order, budget=Fraction(7, 3), definition=definition, force=made_up(data))

    search()


def test_both_forms_ask_for_the_same_draws() -> None:
    counts = np.array([[5, 0, 2], [2, 2, 90]])
    runs = []
    for form in ("counts", "prevalences"):
        given_in = given_as(counts, form)
        runs.append(replay(build("privhist", form=form), given_in, given_in, 1, 5))
    assert [run.loss for run in runs] == [0, 0]
    assert [event for event, _ in runs[0].losses] == [event for event, _ in runs[1].losses]


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

    class Tells(PrivHistTwin):
        def draw(self, counts: Any, channel: Any) -> Any:
            arrays, meta = super().draw(counts, channel)
            return arrays, meta | {"distinct": int(counts.shape[0])}

    one, more = (given_as(np.array(each), "prevalences") for each in ([3, 3], [3, 4]))
    assert replay(Tells(broken=False, form="prevalences"), one, more, 1, 0).loss == inf
