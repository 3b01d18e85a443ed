"""Inboxes in an object store: no atomic rename, no links, the same judgements."""

from __future__ import annotations

import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from tabularium.mechanisms.errors import DataRefused, InputMissing
from tabularium.tasks.arrival import claims, places
from tabularium.tasks.arrival.inboxes import Inbox, add
from tabularium.tasks.arrival.look import look
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, states, write_scene
from tests.sizes import runs
from tests.tasks.arrival.drops import FILES, PRODUCT, TEXT, damage, drops_of, manifest, seen, write_drop
from tests.tasks.arrival.test_fetch_drop import fetched
from tests.tasks.arrival.test_look import finish


class Cut(BaseException):
    """The process ends here."""


def scene(folder: Path, bucket: str, **settings: Any) -> tuple[Home, Inbox]:
    spec, home = write_scene(folder)
    return home, add(home, Inbox(PRODUCT, f"s3://{bucket}/in", str(spec), **{"patience": 0.0, **settings}))


def put(store: Any, bucket: str, name: str = "first", **others: Any) -> None:
    for each, content in FILES.items():
        store.pipe_file(f"{bucket}/in/{name}/{each}", content)
    store.pipe_file(f"{bucket}/in/{name}/drop.json", json.dumps(manifest(**others)).encode())


def keys(store: Any, bucket: str) -> list[str]:
    store.invalidate_cache()
    return sorted(key.removeprefix(f"{bucket}/in/") for key in store.find(bucket))


def test_a_drop_is_fetched_from_the_store(tmp_path: Path, store: Any, bucket: str) -> None:
    home, inbox = scene(tmp_path, bucket)
    put(store, bucket)
    (drop,) = seen(home, inbox)
    assert fetched(home, inbox, drop) == TEXT
    store.pipe_file(f"{bucket}/in/first/people.csv", TEXT[::-1])
    with pytest.raises(DataRefused, match="no longer the file"):
        fetched(home, inbox, drop)
    store.rm_file(f"{bucket}/in/first/people.csv")
    with pytest.raises(DataRefused, match="no longer the file"):
        fetched(home, inbox, drop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places._Objects, "open", lambda *_: (_ for _ in ()).throw(ConnectionError()))
        with pytest.raises(InputMissing, match="does not answer"):
            fetched(home, inbox, drop)


@pytest.mark.audit
def test_a_drop_is_published_from_the_store_and_put_away(tmp_path: Path, store: Any, bucket: str) -> None:
    home, inbox = scene(tmp_path, bucket)
    assert seen(home, inbox) == []
    put(store, bucket)
    (drop,) = seen(home, inbox)
    outcome = publish(Path(inbox.spec), home, source=f"drop:{drop.id}", period="2026")
    assert outcome.status == "published"
    finish(home, drop, "published")
    (drop,) = seen(home, inbox)
    assert drop.place == "done/first"
    assert keys(store, bucket) == ["done/first/drop.json", "done/first/people.csv"]
    again = publish(Path(inbox.spec), home, source=f"drop:{drop.id}", period="2026")
    assert (again.status, states(home)) == ("already published", ["published"])


def test_damaged_drops_go_to_quarantine(tmp_path: Path, store: Any, bucket: str) -> None:
    home, inbox = scene(tmp_path, bucket)
    number, chance = 0, random.Random(7)
    while number < runs(6, 60):
        local = write_drop(tmp_path, f"drop{number}")
        damage(local, chance)
        files = [
            path
            for path in local.iterdir()
            if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_nlink == 1
        ]
        if len(files) < len(list(local.iterdir())) or not (local / "drop.json").exists():
            local.rename(tmp_path / f"not-in-a-store-{random.random()}")  # links and pipes
            continue
        for path in files:
            store.pipe_file(f"{bucket}/in/{local.name}/{path.name}", path.read_bytes())
        number += 1
    before = keys(store, bucket)
    assert {drop.state for drop in seen(home, inbox)} == {"quarantined"}
    after = keys(store, bucket)
    lines = [key for key in after if key.endswith(".why.txt")]
    assert len(lines) == number
    assert sorted(key.removeprefix("quarantine/") for key in after if key not in lines) == before
    for key in lines:
        assert store.cat_file(f"{bucket}/in/{key}").count(b"\n") == 1


def test_a_drop_whose_manifest_is_not_there_waits_and_nested_names_are_refused(
    tmp_path: Path, store: Any, bucket: str
) -> None:
    home, inbox = scene(tmp_path, bucket)
    store.pipe_file(f"{bucket}/in/first/people.csv", TEXT)
    store.pipe_file(f"{bucket}/in/loose.csv", TEXT)
    assert seen(home, inbox) == []
    store.pipe_file(f"{bucket}/in/first/deeper/people.csv", TEXT)
    store.pipe_file(f"{bucket}/in/first/drop.json", json.dumps(manifest()).encode())
    (drop,) = seen(home, inbox)
    assert drop.state == "quarantined"
    assert f"{drop.place}/deeper/people.csv" in keys(store, bucket)


@pytest.mark.parametrize("place", ["folder", "store"])
def test_putting_away_goes_on_wherever_it_was_cut_off(
    tmp_path: Path, store: Any, bucket: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off before the first step, then before the second, and so on until nothing is left to cut."""
    steps = [
        (claims.Claims, ["change", "take"]),
        (places._Folder, ["move", "write", "delete"]),
        (places._Objects, ["_copy", "_remove", "write"]),
    ]
    cuts = 0
    while True:
        folder = tmp_path / str(cuts)
        if place == "store":
            home, inbox = scene(folder, bucket)
            inbox = add(home, Inbox(PRODUCT, f"s3://{bucket}/{cuts}/in", inbox.spec, patience=0))
            for name, content in {
                **FILES,
                "drop.json": json.dumps(manifest(product="other")).encode(),
            }.items():
                store.pipe_file(f"{bucket}/{cuts}/in/first/{name}", content)
        else:
            spec, home = write_scene(folder)
            (folder / "inbox").mkdir()
            inbox = add(home, Inbox(PRODUCT, str(folder / "inbox"), str(spec), patience=0))
            write_drop(inbox, product="other")
        left = cuts
        with monkeypatch.context() as patch:

            def cutting(function: Any) -> Any:
                def step(*args: Any, **kwargs: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise Cut
                    return function(*args, **kwargs)

                return step

            for kind, names in steps:
                for name in names:
                    patch.setattr(kind, name, cutting(getattr(kind, name)))
            try:
                look(home, inbox)
                whole = True
            except Cut:
                whole = False
        (drop,) = seen(home, inbox)
        assert (drop.state, drop.place, drop.lies) == ("quarantined", "quarantine/first", None)
        found = (
            sorted(key.partition("/in/")[2] for key in store.find(f"{bucket}/{cuts}/in"))
            if place == "store"
            else sorted(
                str(path.relative_to(inbox.address))
                for path in Path(inbox.address).rglob("*")
                if path.is_file()
            )
        )
        assert found == [
            "quarantine/first.why.txt",
            "quarantine/first/drop.json",
            "quarantine/first/people.csv",
        ]
        if whole:
            break
        cuts += 1
    assert cuts >= (8 if place == "store" else 5)
    assert len(drops_of(home)) == 1
