"""Making a ledger's tables, and putting what guards them back in place.

The chain is walked first, in the same transaction and under the one right to append: a ledger that does not
verify, or is an old copy, is not touched. There is one revision of the tables until the first public release.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import URL

from tabularium.ledger.chain.verify import Verified, verify_rows
from tabularium.ledger.refusals import ReadOnly, StorageFailed
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.database import NOT_A_LEDGER, WAIT_SECONDS, Database


@dataclass(frozen=True)
class Migrated:
    """What the chain holds, and why the ledger takes no entry all the same (``None``: it does)."""

    verified: Verified
    fault: str | None


def migrate(url: str | URL, *, wait: float = WAIT_SECONDS) -> Migrated:
    """Make the tables of a ledger if there are none, and put their guard in place.

    Raises
    ------
    ChainBroken
        If the chain does not verify; nothing is changed then.
    ReadOnly
        If the chain lacks the witness's head.
    StorageFailed
        If the database belongs to something else or to another release.
    """
    database = Database(url, wait)
    backend = database.backend
    try:
        if database.fault == NOT_A_LEDGER:
            raise StorageFailed("is not a ledger", where=database.name, hint="check the URL")
        with database.write() as connection:
            found = verify_rows(connection)
            heads = backend.witnessed().heads(entry_queries.first_hash(connection))
            lacking = next((head for head in heads if not entry_queries.holds(connection, head)), None)
            if lacking is not None:
                raise ReadOnly(
                    f"it lacks entry {lacking.seq} as the witness file names it",
                    where=database.name,
                    hint="restore the newest backup, then migrate that",
                )
            backend.guard(connection)
            return Migrated(found, backend.unguarded(connection))
    finally:
        database.close()
