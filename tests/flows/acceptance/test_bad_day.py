"""After a bad day every drop is published once and paid once, and nothing waits for anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debian import Unavailable
from tests.flows.acceptance.bad_day import bad_day
from tests.sizes import full, runs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("acceptance")]


def test_every_drop_is_published_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    products, drops = runs(2, 21), runs(2, 120)
    try:
        # In small only that the account is right: after most faults a run is missed for 90 s first.
        day = bad_day(tmp_path, products, drops, faults=full(), seconds=runs(600, 3600))
    except Unavailable as reason:
        pytest.skip(str(reason))
    with capsys.disabled():
        print(f"\n{day.told()}")
    assert day.states == {"runs Completed": drops, "drops published": drops}
    assert day.runs == {1: drops}
    assert day.amiss == []
