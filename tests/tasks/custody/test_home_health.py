"""What the doctor says of the drops that an inbox has."""

from __future__ import annotations

from pathlib import Path

from tasks.arrival.look import look
from tasks.custody.home_health import _inboxes
from tests.tasks.arrival.drops import write_drop, write_inbox


def test_drops_that_need_somebody_are_counted(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    assert [(each.thing, each.state) for each in _inboxes(home)] == [("inboxes", "ok")]
    write_drop(inbox, "first")
    write_drop(inbox, "second", product="large")
    look(home, inbox)
    drops, place = _inboxes(home)
    assert (drops.state, drops.said) == ("warn", f"{inbox.product}: 1 in quarantine, 1 under way")
    assert drops.mend.endswith("/inbox/quarantine")
    assert place.state == "ok"
