"""The agency's keys for releases, as entries of the ledger tell of them.

They are no officers' keys: an officer decides, and a machine that publishes signs what was decided. So one
public key is never both. Several may be enrolled at a time: a new one is enrolled before the old one is
revoked, and what the old one signed before stays signed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class ReleaseKey:
    """A public key (32 bytes, hexadecimal) with which the agency signs its releases.

    ``enrolled`` and ``revoked`` are the numbers of the entries that say so; ``revoked`` is ``None`` while the
    key may sign. ``key`` is its name: the beginning of its SHA-256.
    """

    key: str
    agency: str
    public_key: str
    enrolled: int
    since: str
    revoked: int | None = None

    @property
    def active(self) -> bool:
        """Whether it may sign what is published from now on."""
        return self.revoked is None

    def vouches_for(self, published: int) -> bool:
        """Whether it was enrolled, and not yet revoked, when the entry of that number was written."""
        return self.enrolled < published and (self.revoked is None or published < self.revoked)


def release_keys_of(bodies: Iterable[Mapping[str, Any]]) -> dict[str, ReleaseKey]:
    """Return every key for releases that entries tell of, by its name; other entries are passed over.

    Parameters
    ----------
    bodies
        What entries of a verified chain say, in order.
    """
    found: dict[str, ReleaseKey] = {}
    for body in bodies:
        if body["kind"] == "release_key":
            named = (body["key"], body["agency"], body["public_key"])
            found[body["key"]] = ReleaseKey(*named, enrolled=body["seq"], since=body["at"])
        elif body["kind"] == "revocation" and body["key"] in found:
            found[body["key"]] = replace(found[body["key"]], revoked=body["seq"])
    return found
