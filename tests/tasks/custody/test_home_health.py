"""What the doctor says of the drops that an inbox has."""

from __future__ import annotations

import os
from pathlib import Path

from tabularium.tasks.arrival.look import look
from tabularium.tasks.custody.home_health import _inboxes, _publication
from tests.flows.release.scene import publish, write_scene
from tests.tasks.arrival.drops import write_drop, write_inbox


def test_drops_that_need_somebody_are_counted(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    assert [(each.thing, each.state) for each in _inboxes(home)] == [("inboxes", "ok")]
    write_drop(inbox, "first")
    write_drop(inbox, "second", product="large")
    look(home, inbox)
    drops, place = _inboxes(home)
    assert (drops.state, drops.said) == ("warn", f"{inbox.product}: 1 in quarantine, 1 under way")
    assert drops.hint.endswith("/inbox/quarantine")
    assert place.state == "ok"


def test_a_drop_whose_manifest_never_came_is_named(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    for name in ("now", "then"):
        drop = write_drop(inbox, name)
        (drop / "drop.json").unlink()
    os.utime(drop, (0, 0))
    place, drops = _inboxes(home)
    assert place.state == "ok"
    said = f"{inbox.product}: then without drop.json, and nobody writes there now"
    assert (drops.state, drops.said) == ("warn", said)


def test_a_publication_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    assert [look.state for look in _publication(home)] == ["ok"]
    base = Path(publish(spec, home).folder).parents[2]
    assert [(look.state, look.said) for look in _publication(home)] == [("ok", str(base))]
    base.rename(tmp_path / "elsewhere")
    assert [(look.state, look.said) for look in _publication(home)] == [("fail", f"{base} is gone")]
