"""A real browser for the tests: headless Chromium, one picture of one page."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.debian import found


def picture(page: Path, folder: Path, *, width: int = 1300, height: int = 3000) -> NDArray[Any]:
    """Return what ``page`` looks like: (height, width, 3) floats from 0 to 1.

    Raises
    ------
    Unavailable
        There is no browser.
    """
    from matplotlib.image import imread

    shot = folder / "shot.png"
    subprocess.run(
        [
            found("chromium"),
            "--headless",
            "--no-sandbox",  # the tests may run as root; the page is ours
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--user-data-dir={folder / 'browser'}",
            f"--window-size={width},{height}",
            f"--screenshot={shot}",
            page.absolute().as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return np.asarray(imread(shot))[..., :3]


def share_of_colour(shot: NDArray[Any], colour: str) -> float:
    """Return the share of pixels that have the colour ``#rrggbb``, but for rounding."""
    wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return float((np.abs(shot - wanted) < 0.02).all(axis=2).mean())
