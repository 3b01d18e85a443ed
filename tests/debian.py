"""Programs that tests need and a bare machine lacks: installed from Debian's packages where that is allowed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


class Unavailable(Exception):
    """Why a program cannot be had; the tests that need it are skipped with this reason."""


def installed(package: str, find: Callable[[], Found | None]) -> Found:
    """Return what ``find`` finds, if need be after installing ``package``.

    Raises
    ------
    Unavailable
        It is not there, and cannot or may not be installed.
    """
    found = find()
    if found is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"{package} is not installed, and this user may not install it")
    with (Path(tempfile.gettempdir()) / "tabularium-apt.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # several workers of the test run come here at once
        if find() is None:
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", package]):
                done = subprocess.run(["apt-get", *words], env=environment, capture_output=True, check=False)
                if done.returncode:
                    raise Unavailable(f"{package} is not installed, and apt-get could not install it")
    found = find()
    if found is None:
        raise Unavailable(f"apt-get did not install {package}")
    return found
