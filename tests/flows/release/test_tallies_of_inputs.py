"""Which input a tally was drawn from: no other input is judged by it, and nobody is told that it was tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tabularium.tasks.count.count
import tabularium.tasks.validate
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import DataRefused, InternalError, TabulariumError
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import reporting_to
from tests.flows.release.scene import Before, publish, write_scene
from tests.flows.release.test_tallies import certificate, charges, fewer, noisy

pytestmark = pytest.mark.xdist_group("tallies")


def stop() -> None:
    raise RuntimeError


def cut_off(spec: Path, home: Home, before: str, source: Path | None = None) -> None:
    """Run until a stage begins, and stop there as a crash would."""
    with reporting_to(Before(name=before, work=stop)), pytest.raises(InternalError):
        publish(spec, home, source=source)


def tally_charges(home: Home) -> list[str]:
    return [charge.release_id for charge in charges(home) if charge.amount == 1]


def test_a_resumed_release_publishes_the_number_of_its_own_input(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("min: 550", share="1/4"))
    cut_off(spec, home, "reserve budget")
    with pytest.raises(TabulariumError, match="is below 550"):
        publish(spec, home, source=fewer(spec, 300))
    cut_off(spec, home, "publish")
    (tally,) = certificate(publish(spec, home))["tallies"]
    assert abs(tally["number"] - 600) < 40, "not of the 300 records of the input that came between"


def refused(spec: Path, home: Home, source: Path | None = None) -> str:
    """What is told at home of a refusal of which others hear nothing."""
    with pytest.raises(DataRefused) as caught:
        publish(spec, home, source=source)
    assert "refused: data rules" in caught.value.in_public().line()
    return str(caught.value)


@pytest.mark.parametrize("state", ["drawing", "measured"])
def test_without_its_binding_a_tally_is_given_to_no_input(tmp_path: Path, state: str) -> None:
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("min: 550", share="1/4"))
    if state == "measured":
        cut_off(spec, home, "reserve budget")
    else:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(InternalError):
            patch.setattr("tabularium.tasks.unit_tallies.write_head_marker", lambda *_: stop())
            publish(spec, home)
    assert [charge.state for charge in charges(home)] == [state]
    (home.path / "inputs").rename(home.path / "kept")
    for source in (None, fewer(spec, 560)):
        assert "no longer known" in refused(spec, home, source)
    (home.path / "kept").rename(home.path / "inputs")
    assert publish(spec, home).status == "published"


def test_a_drawn_release_is_finished_without_bindings_if_one_input_was_tried(tmp_path: Path) -> None:
    for name, tried in (("one", 1), ("two", 2)):
        spec, home = write_scene(tmp_path / name, budget="4", rules=noisy("min: 550", share="1/4"))
        if tried == 2:
            with pytest.raises(TabulariumError, match="is below 550"):
                publish(spec, home, source=fewer(spec, 300))
        cut_off(spec, home, "publish")
        shutil.rmtree(home.path / "inputs")
        if tried == 1:
            assert publish(spec, home).status == "published"
        else:
            assert "no longer known" in refused(spec, home)


@pytest.mark.parametrize("told_by", ["inputs", "heads"])
def test_a_new_ledger_draws_no_tally_again(tmp_path: Path, told_by: str) -> None:
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("min: 550", share="1/4"))
    cut_off(spec, home, "reserve budget")
    shutil.rmtree(home.measurements)
    shutil.rmtree(tmp_path / "releases" if told_by == "inputs" else home.path / "inputs")
    for path in home.path.glob("ledger.db*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    write_scene(tmp_path, budget="4", rules=noisy("min: 550", share="1/4"))
    assert ("old copy" if told_by == "inputs" else "another ledger") in refused(spec, home)
    assert not charges(home)


@pytest.mark.parametrize("step", ["void", "abandon", "budget"])
def test_whether_an_input_was_tried_is_told_at_home_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The refusal comes before anything is counted, together with those of the input itself."""
    spec, home = write_scene(tmp_path, budget="4", cap="4", rules=noisy("min: 550", share="1/4"))
    if step == "void":
        with pytest.MonkeyPatch.context() as patch, pytest.raises(InternalError):
            patch.setattr("tabularium.tasks.unit_tallies.measure_once", lambda *_, **__: stop())
            publish(spec, home)
    else:
        cut_off(spec, home, "reserve budget")
    with Ledger.connect(home.ledger_url) as books:
        (name,) = tally_charges(home)
        if step == "void":
            books.void(name, "a mistake")
        elif step == "abandon":
            books.abandon(name, "given up")
    monkeypatch.setattr(tabularium.tasks.count.count, "count_tables", None)
    monkeypatch.setattr(tabularium.tasks.validate, "validate_microdata", None)
    said = refused(spec, home, fewer(spec, 590) if step == "budget" else None)
    assert {"void": "voided", "abandon": "abandoned", "budget": "costs 4 and 3 is left"}[step] in said


def test_a_rule_that_fails_again_is_told_at_home_alone(tmp_path: Path) -> None:
    """The number is private; that it is the same one again would tell that the input is."""
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("max: 10", share="1/4"))
    assert refused(spec, home) == refused(spec, home)


def test_the_attempts_of_tallies_are_published(tmp_path: Path) -> None:
    """Its tally was drawn in two attempts: the bound for crashes that hang on the noise counts them."""
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("min: 550", share="1/4"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(InternalError):
        patch.setattr("tabularium.tasks.unit_tallies.write_head_marker", lambda *_: stop())
        publish(spec, home)
    found = certificate(publish(spec, home))
    assert [each["attempts"] for each in found["ledger"]["tally_charges"]] == [2]
    (fact,) = [each["what"] for each in found["outside_the_guarantee"] if each["kind"] == "attempts"]
    assert fact.endswith("up to ε = 5"), "one draw at 3 and two at 1"
