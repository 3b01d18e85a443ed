"""A delivery, as whoever sends data makes one: the files, then the manifest that says what they are."""

from __future__ import annotations

from pathlib import Path

from tabularium.lab.demo.demo_typing import shown
from tabularium.flows.cli.terminal import out
from tabularium.tasks.arrival.deliver import deliver as put
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.arrival.manifest import MANIFEST

_NAME = "delivery-1"


def deliver(data: Path, inbox: Path, product: str, period: str) -> None:
    """Put a drop into the inbox, unless it lies there or was put away."""
    if drop_lies_in(inbox).exists():
        return
    drop = put([data], Inbox(product, str(inbox), ""), period, name=_NAME)
    out.print(f"{shown(drop / data.name)}\n{shown(drop / MANIFEST)}", highlight=False, soft_wrap=True)


def drop_lies_in(inbox: Path) -> Path:
    """Return where the drop lies: in the inbox, or where it was put away."""
    places = (inbox / _NAME, inbox / "done" / _NAME, inbox / "quarantine" / _NAME)
    return next((place for place in places if (place / MANIFEST).exists()), places[0])
