"""Verifying a drop: its files are those of its manifest, to the last bit."""

from __future__ import annotations

import hashlib
import re
from typing import IO

from tasks.arrival.limits import Limits
from tasks.arrival.manifest import MANIFEST, DropRefused, Manifest, read_manifest
from tasks.arrival.places import Place, Seen

_BLOCK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,99}")
_AGAIN = "drop it again with a manifest that is made from its files"


def said(place: Place, name: str, product: str, limits: Limits) -> tuple[Manifest, list[Seen]] | None:
    """Return what the manifest of a drop says, and what lies there; None as long as there is no manifest.

    Raises
    ------
    DropRefused
        If it is not for this product, does not fit what lies there, or is beyond the limits: not yet, or
        never.
    """
    lying = place.listing(name)
    seen = {each.name: each for each in lying}
    if MANIFEST not in seen:
        return None
    manifest = read_manifest(_small(place, name, seen[MANIFEST], limits.manifest), limits)
    if not is_plain(name):
        raise DropRefused(
            "has a name that is not of letters, digits, dots, dashes, = and underscores",
            where="the drop",
            mend="drop it again under another name",
        )
    if manifest.product != product:
        raise DropRefused(
            f"names another product than the one of this inbox, {product}",
            where=MANIFEST,
            mend="drop it into the inbox of that product",
        )
    _match(manifest, seen)
    return manifest, lying


def is_whole(place: Place, name: str, manifest: Manifest, lying: list[Seen]) -> bool:
    """Whether the files of a drop are those of its manifest to the last bit; False if they change just now.

    Every file is read once, and never beyond the size that the manifest says.

    Raises
    ------
    DropRefused
        If one is not.
    """
    for file in manifest.files:
        with place.open(name, file.name) as content:
            if _digest(content, file.size) != file.sha256:
                raise DropRefused("is not the file that the manifest describes", where=file.name, mend=_AGAIN)
    return place.listing(name) == lying


def is_plain(name: str) -> bool:
    """Whether a name is of the form that names of drops have."""
    return _NAME.fullmatch(name) is not None


def _small(place: Place, name: str, seen: Seen, most: int) -> bytes:
    if seen.size > most:
        return b" " * (most + 1)  # to be refused as it is
    with place.open(name, MANIFEST) as file:
        return _read(file, most + 1)


def _match(manifest: Manifest, seen: dict[str, Seen]) -> None:
    visible = {name for name in seen if not name.startswith((".", "_"))} - {MANIFEST}
    if not visible <= {file.name for file in manifest.files}:
        raise DropRefused("holds something that its manifest does not list", where="the drop", mend=_AGAIN)
    for file in manifest.files:
        there = seen.get(file.name)
        if there is None:
            raise DropRefused("is listed and not there", where=file.name, mend=_AGAIN)
        if not there.plain:
            raise DropRefused(
                "is no plain file of its own", where=file.name, mend="drop it again without links or folders"
            )
        if there.size != file.size:
            raise DropRefused("has another size than the manifest says", where=file.name, mend=_AGAIN)


def _digest(content: IO[bytes], size: int) -> str:
    digest, rest = hashlib.sha256(), size + 1  # one more: it may have grown
    while rest and (block := content.read(min(_BLOCK, rest))):
        digest.update(block)
        rest -= len(block)
    return digest.hexdigest()


def _read(file: IO[bytes], most: int) -> bytes:
    blocks = []
    while most and (block := file.read(most)):
        blocks.append(block)
        most -= len(block)
    return b"".join(blocks)
