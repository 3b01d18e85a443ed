"""Programs that tests need and that come from Debian's packages: ``make debian`` installs them, no test does."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class Unavailable(Exception):
    """Why a program cannot be had; the tests that need it are skipped with this reason."""


@dataclass(frozen=True)
class Program:
    """What a package is for, and how to find the program or its folder."""

    why: str
    find: Callable[[], Path | None]


def _postgresql() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    for name in ("initdb", "postgres"):
        there = shutil.which(name)
        if there is not None:
            folders.append(Path(there).resolve().parent)
    return next((path for path in folders if (path / "initdb").exists()), None)


def _chromium() -> Path | None:
    there = shutil.which("chromium")
    return None if there is None else Path(there)


def _java() -> Path | None:
    there = shutil.which("java")
    return None if there is None else Path(there)


def _r() -> Path | None:
    there, library = shutil.which("Rscript"), Path("/usr/lib/R/site-library/jsonlite")
    return None if there is None or not library.exists() else Path(there)


PROGRAMS = {
    "postgresql": Program("the ledger is tested on a real server", _postgresql),
    "chromium": Program("a browser draws the pages", _chromium),
    "default-jre-headless": Program("Spark counts on a cluster", _java),
    "r-cran-jsonlite": Program("the page for users of R is followed", _r),
}


def found(package: str) -> Path:
    """Return where the program of ``package`` lies.

    Raises
    ------
    Unavailable
        It is not installed.
    """
    place = PROGRAMS[package].find()
    if place is None:
        raise Unavailable(f"{package} is not installed; as root, `make debian` installs it")
    return place


def main() -> None:
    """Install what is missing where this user may; say what is done and why."""
    missing = [package for package, program in PROGRAMS.items() if program.find() is None]
    if not missing:
        print(f"Debian packages for the tests are there: {', '.join(PROGRAMS)}")
        return
    for package in missing:
        print(f"Debian package {package} is missing: {PROGRAMS[package].why}", flush=True)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("It takes root and apt-get to install them; the tests that need them are skipped.")
        return
    print(f"Installing with apt-get: {' '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", *words], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"apt-get {words[0]} failed: {done.stderr.strip()[-500:]}")
            print("The tests that need these packages are skipped.")
            return


if __name__ == "__main__":
    main()
