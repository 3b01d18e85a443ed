"""What ``make debian`` does and says, with a stand-in for apt-get; and that a test that lacks a program installs none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import debian
from tests.debian import Program, Unavailable, found


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the package ``thing``, whose apt-get writes what it was asked for into this file."""
    log, made = tmp_path / "asked", tmp_path / "thing"
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$1" = update ] || : > {made}\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program = Program("somebody looks at it", lambda: made if made.exists() else None)
    monkeypatch.setattr(debian, "PROGRAMS", {"thing": program})
    return log


def test_what_is_missing_is_named_and_installed_once(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    debian.main()
    told = capsys.readouterr().out
    assert "thing is missing: somebody looks at it" in told
    assert "Installing with apt-get: thing" in told
    assert asked.read_text().splitlines() == ["update -qq", "install -qq -y --no-install-recommends thing"]
    assert found("thing").exists()
    debian.main()
    assert capsys.readouterr().out == "Debian packages for the tests are there: thing\n"
    assert len(asked.read_text().splitlines()) == 2


def test_who_may_not_install_is_told_what_follows(
    asked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    debian.main()
    assert "the tests that need them are skipped" in capsys.readouterr().out
    assert not asked.exists()


def test_an_apt_that_fails_is_told(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked.with_name("apt-get").write_text("#!/bin/sh\necho 'no route to the archive' >&2\nexit 100\n")
    debian.main()
    assert "apt-get update failed: no route to the archive" in capsys.readouterr().out


def test_a_test_installs_nothing(asked: Path) -> None:
    with pytest.raises(Unavailable, match="thing is not installed; as root, `make debian` installs it"):
        found("thing")
    assert not asked.exists()
