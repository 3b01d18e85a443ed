"""``doctor --account-for``: what does not fit between ledger, folders and drops is named, and nothing else."""

from __future__ import annotations

import errno
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import InternalError
from tabularium.tasks.arrival.claims import Claims, drop_found
from tabularium.tasks.custody.home_health import account_for
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, publish_with, write_scene

OLD = 1_600_000_000.0


@pytest.fixture
def published(tmp_path: Path) -> tuple[Home, Path]:
    """A home with one release, and the folder of that."""
    spec, home = write_scene(tmp_path)
    return home, Path(publish(spec, home).folder)


def found(home: Home) -> list[str]:
    return [f"{look.state} {look.thing}: {look.said}" for look in account_for(home)]


def drop(home: Home, **values: object) -> str:
    made = drop_found("small", "first", period="2026", found_at=OLD, **values)
    with Claims.at(home) as claims:
        assert claims.take(made)
    return f"drop {made.id} of small, period 2026"


def test_what_fits_is_one_line(published: tuple[Home, Path]) -> None:
    home, folder = published
    drop(home, state="published", release_id=folder.name)
    assert found(home) == ["ok accounts: 1 charges, 1 folders and 1 drops: each fits the others"]


def test_folders_that_do_not_fit(published: tuple[Home, Path]) -> None:
    home, folder = published
    other = folder.with_name("0" * 32)
    shutil.copytree(folder, other)
    assert found(home) == [f"warn folders: {other}: the ledger knows no such release"]
    shutil.rmtree(other)
    table = next(folder.glob("**/*.csv"))
    table.write_text(table.read_text() + "\n")
    assert found(home) == [f"fail folders: {folder}: is not what was published"]
    shutil.rmtree(folder)
    named = f"release {folder.name} of small, period 2026"
    assert found(home) == [f"fail folders: {named}: published, and its folder is gone"]
    base = folder.parents[2]
    shutil.rmtree(base)
    assert found(home) == [f"fail folders: {base}: releases were published here, and it is gone"]


def test_drops_that_do_not_fit(published: tuple[Home, Path]) -> None:
    home, folder = published
    lost = drop(home, state="published", release_id="f" * 32, lies=None)
    behind = drop(home, state="started", release_id=folder.name, lies=None)
    waits = drop(home, state="arrived", lies=None)
    assert sorted(found(home)) == sorted(
        [
            f"fail drops: {lost}: recorded as published, and the ledger knows no release of it",
            f"warn drops: {behind}: started, and its release is published",
            f"warn drops: {waits}: arrived, found at 2020-09-13T12:26:40Z",
        ]
    )


def test_charges_that_nothing_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, home = write_scene(tmp_path)
    with pytest.raises(InternalError):
        publish_with(fail, before="publish", spec=spec, home=home)
    assert [line.partition(": ")[0] for line in found(home)] == ["ok accounts"]  # it may still be at work
    monkeypatch.setattr("tabularium.tasks.custody.home_health._LONG", timedelta(0))
    (line,) = found(home)
    assert line.startswith("warn charges: release ")
    assert "of small, period 2026: measured since " in line


def fail() -> None:
    raise OSError(errno.ENOSPC, "full")
