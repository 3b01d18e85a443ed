"""An installation with one release and its backup, and what opens and closes backups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyrage

from tabularium.tasks.custody.sealing import Lock
from tabularium.tasks.runtime.home import Home

IDENTITY = pyrage.x25519.Identity.generate()
CLOSED = Lock(recipients=(str(IDENTITY.to_public()),))
OPENED = Lock(identities=(str(IDENTITY),))


@dataclass(frozen=True)
class Scene:
    """An installation with one release, and its backup."""

    folder: Path
    spec: Path
    home: Home
    target: Path
