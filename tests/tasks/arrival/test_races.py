"""Two watchers, one claim: processes that look at one inbox at the same moment, on both databases."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabularium.ledger import Ledger
from tabularium.ledger.durable_files import turn
from tabularium.ledger.refusals import StorageFailed
from tabularium.tasks.arrival import drop_outcomes
from tabularium.tasks.arrival.claims import Claims, drop_found
from tabularium.tasks.arrival.look import look, put_away
from tabularium.tasks.arrival.places import opened
from tabularium.tasks.runtime.home import Home
from tests.ledger.scene import postgresql
from tests.ledger.storage.logins import logins
from tests.sizes import runs
from tests.tasks.arrival.drops import PRODUCT, damage, drops_of, seen, write_drop, write_inbox

ROOT = Path(__file__).parents[3]


def raced(home: Path, watchers: int) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.tasks.arrival.race_driver", str(home)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(watchers)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said[-2000:]


def test_watchers_that_race_claim_each_drop_and_each_period_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (place / "url").exists():
        monkeypatch.setenv("TABULARIUM_LEDGER", (place / "url").read_text())
    home, inbox = write_inbox(place / "scene", periods=r"20\d\d")
    periods = [str(2000 + number) for number in range(runs(3, 20))]
    for period in periods:
        write_drop(inbox, f"a{period}", period=period)
        write_drop(inbox, f"b{period}", period=period)
        damage(write_drop(inbox, f"c{period}"), random.Random(int(period)))
    raced(home.path, runs(3, 6))

    drops = drops_of(home)
    assert Counter(drop.state for drop in drops) == {"arrived": len(periods), "quarantined": 2 * len(periods)}
    assert sorted(drop.period for drop in drops if drop.state == "arrived") == periods
    arrived = {drop.place for drop in drops if drop.state == "arrived"}
    inside = {path.name for path in Path(inbox.address).iterdir()}
    assert inside == {"quarantine", *arrived}
    quarantined = {path.name for path in (Path(inbox.address) / "quarantine").iterdir()}
    names = {drop.place.removeprefix("quarantine/") for drop in drops if drop.state == "quarantined"}
    assert quarantined == names | {f"{name}.why.txt" for name in names}
    assert {name[:5] for name in names | arrived} == {f"{kind}{year}" for kind in "abc" for year in periods}


@postgresql
def test_a_runner_keeps_the_table_that_the_owner_made(
    books: Ledger, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del books
    home = Home.at(place / "home")
    monkeypatch.setenv("TABULARIUM_LEDGER", (place / "url").read_text())
    with logins(place) as log_in, monkeypatch.context() as patch:
        patch.setenv("TABULARIUM_LEDGER", log_in("writer"))
        with pytest.raises(StorageFailed, match="may not make the table arrivals"), Claims.at(home):
            pass
    with Claims.at(home):
        pass
    with logins(place) as log_in:
        monkeypatch.setenv("TABULARIUM_LEDGER", log_in("writer"))
        with Claims.at(home) as claims, Ledger.connect(home.ledger_url) as runner:
            runner.require_writable()
            drop = drop_found(PRODUCT, "a", state="arrived")
            assert claims.take(drop)
            assert claims.change(drop, state="gone")
            claims.withdraw(drop)
        monkeypatch.setenv("TABULARIUM_LEDGER", log_in("reader"))
        with pytest.raises(StorageFailed, match="does not answer, or may not"), Claims.at(home) as claims:
            claims.lying(PRODUCT)


def test_what_a_drop_has_to_itself_no_other_gets(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (place / "url").exists():
        monkeypatch.setenv("TABULARIUM_LEDGER", (place / "url").read_text())
    home, _ = write_inbox(place / "scene")
    with Claims.at(home) as claims:
        first = drop_found(PRODUCT, "a", state="arrived", slot="small/2026")
        assert claims.take(first)
        assert not claims.take(drop_found(PRODUCT, "a", state="arrived"))
        assert not claims.take(drop_found(PRODUCT, "b", state="arrived", slot="small/2026"))
        assert claims.change(first, state="published", lies=None)
        assert not claims.change(first, state="refused")
        assert claims.take(drop_found(PRODUCT, "a", state="arrived"))
        assert not claims.take(drop_found(PRODUCT, "b", state="arrived", slot="small/2026"))
        assert claims.take(drop_found("other", "a", state="arrived", slot="other/2026"))


@pytest.mark.parametrize("held", [False, True])
def test_a_watcher_that_wakes_up_late_moves_no_other_drop(held: bool, tmp_path: Path) -> None:
    """It saw the first drop under the name that another one has by now."""
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    (drop,) = seen(home, inbox)
    drop_outcomes.finished(home, f"drop:{drop.id}", "published")
    place = opened(inbox.address)
    with Claims.at(home) as claims, turn(home.path / f".{drop.product}.moves.lock", 0):
        (asleep,) = claims.of_product(drop.product, "published")
        if held:  # nobody moves while another one does
            put_away(claims, home, place, asleep)
    if held:
        assert drops_of(home) == [asleep]
        return
    look(home, inbox)
    shutil.rmtree(Path(inbox.address) / "done")
    write_drop(inbox)
    with Claims.at(home) as claims:
        put_away(claims, home, place, asleep)
    assert (Path(inbox.address) / "first").is_dir()
    assert not (Path(inbox.address) / "done").exists()


@pytest.mark.parametrize("since", [{"announced_at": 1.0}, {"state": "started"}])
def test_a_claim_of_which_somebody_knows_is_not_taken_back(since: dict[str, Any], tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    (drop,) = seen(home, inbox)
    with Claims.at(home) as claims:
        assert claims.change(drop, **since)
        claims.withdraw(drop)
    assert drops_of(home) == [replace(drop, **since)]
