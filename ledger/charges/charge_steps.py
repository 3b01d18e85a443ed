"""One step of a charge: the charge as it stands now, whoever holds its fence, and the entry of its step."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from tabularium.ledger import names
from tabularium.ledger.charges.charge_rules import sums_after
from tabularium.ledger.records import Charge
from tabularium.ledger.refusals import Conflict, StaleFence, unknown_release
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.append import Append


def stepped(
    append: Append,
    charge: Charge,
    step: str,
    *,
    tolerance: timedelta | None = None,
    signature: Mapping[str, Any] | None = None,
) -> Charge:
    """Append that ``charge`` took ``step``; its other fields are as they shall be afterwards."""
    fields = {**charge.fields(), **(signature or {})}
    for scope, sums in sums_after(append.connection, charge, step, append.standing(charge)).items():
        fields.update(sums.texts(scope))
    return Charge.of(append.append(step, fields, tolerance))


def known_charge(connection: Connection, release_id: str) -> Charge:
    """Return a charge, or raise ``UnknownRelease``."""
    charge = entry_queries.charge(connection, names.release_id(release_id))
    if charge is None:
        raise unknown_release(release_id)
    return charge


def current_charge(connection: Connection, release_id: str, fence: int) -> Charge:
    """Return the charge if ``fence`` is its current one."""
    charge = known_charge(connection, release_id)
    if names.fence(fence) < charge.fence:
        raise stale(charge)
    if fence > charge.fence:
        raise Conflict("this fence was never given", where=f"release {release_id}", hint="call drawing()")
    return charge


def stale(charge: Charge) -> StaleFence:
    """Return the refusal of a fence that is not the charge's last."""
    return StaleFence(
        "another attempt has taken over; nothing was written",
        where=f"release {charge.release_id}",
        hint="leave it to that attempt, or run again",
    )
