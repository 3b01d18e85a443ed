"""Whether the ledger, the publication folders and the drops tell the same story.

::

    drop ──release id──▶ charge ◀──name of the folder, SHA-256 of its certificate── published folder

Each is compared with the other two, and what does not fit is named, a line each. No data are opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tabularium.ledger import Charge, Ledger
from tabularium.tasks.arrival.claims import LIVE, Claims, Drop
from tabularium.tasks.custody.backing_up import is_whole
from tabularium.tasks.custody.home_health import Look
from tabularium.tasks.publish.release_folder import publication_folders
from tabularium.tasks.runtime.home import Home

#: After so long somebody should look why nothing follows.
_LONG = timedelta(hours=1)


def account_for(home: Home) -> Iterator[Look]:
    """Go through what does not fit; one finding says what was compared where everything does.

    Raises
    ------
    LedgerError
        If there is no ledger, or it cannot be read.
    """
    with Ledger.connect(home.ledger_url, make=False) as ledger:
        charges = {
            charge.release_id: charge
            for account in ledger.accounts()
            for charge in ledger.each_charge(account.name)
        }
    drops, bases = Claims.known(home), publication_folders(home)
    lying = (path for base in bases for path in sorted(base.glob("[!.]*/[!.]*/[!.]*")))
    folders = [path for path in lying if path.is_dir() and not path.is_symlink()]
    amiss = [
        *(_gone(base) for base in bases if not base.is_dir()),
        *_charges(charges, folders, bases, home),
        *_folders(charges, folders),
        *_drops_that_arrived(charges, drops),
    ]
    yield from amiss
    if not amiss:
        told = f"{len(charges)} charges, {len(folders)} folders and {len(drops)} drops: each fits the others"
        yield Look("accounts", "ok", told)


def _gone(base: Path) -> Look:
    return Look(
        "folders", "fail", f"{base}: releases were published here, and it is gone", "mount or restore it"
    )


def _charges(
    charges: dict[str, Charge], folders: list[Path], bases: list[Path], home: Home
) -> Iterator[Look]:
    there = {path.name for path in folders}
    # A release and the tallies beside it have charges of their own, and one certificate.
    published: dict[str, list[Charge]] = {}
    for charge in charges.values():
        if charge.state == "published" and charge.publication_digest is not None:
            published.setdefault(charge.publication_digest, []).append(charge)
        elif not charge.final and not _waits(charge) and _since(charge.changed_at) > _LONG:
            yield Look(
                "charges",
                "warn",
                f"{_of(charge)}: {charge.state} since {charge.changed_at}, and nothing followed",
                f"run it again, or give it up: tabularium ledger abandon {charge.release_id}{home.option}",
            )
    if all(base.is_dir() for base in bases):  # else that is said, and these folders lie there
        for same in published.values():
            if not there & {charge.release_id for charge in same}:
                yield Look(
                    "folders",
                    "fail",
                    f"{_of(same[0])}: published, and its folder is gone",
                    f"tabularium rebuild SPEC{home.option}: it is made anew, and nothing is charged",
                )


def _folders(charges: dict[str, Charge], folders: list[Path]) -> Iterator[Look]:
    for folder in folders:
        charge = charges.get(folder.name)
        if charge is None:
            yield Look(
                "folders",
                "warn",
                f"{folder}: the ledger knows no such release",
                "find out whose it is: another ledger's, or this ledger is an old copy",
            )
        elif charge.state != "published":
            yield Look(
                "folders",
                "fail",
                f"{folder}: lies among what is published, and its charge is {charge.state}",
                "run its spec again, which ends what was begun",
            )
        elif not is_whole(folder, charge):
            yield Look(
                "folders",
                "fail",
                f"{folder}: is not what was published",
                f"see what differs: tabularium verify {folder}; then move it away and run its spec again",
            )


def _drops_that_arrived(charges: dict[str, Charge], drops: list[Drop]) -> Iterator[Look]:
    for drop in drops:
        named = f"drop {drop.id} of {drop.product}, period {drop.period or 'not told'}"
        charge = charges.get(drop.release_id or "")
        found = datetime.fromtimestamp(drop.found_at, UTC)
        if drop.state == "published" and (charge is None or charge.state != "published"):
            became = (
                "the ledger knows no release of it" if charge is None else f"its charge is {charge.state}"
            )
            yield Look("drops", "fail", f"{named}: said to be published, and {became}", "run it again")
        elif drop.state in LIVE and charge is not None and charge.state == "published":
            yield Look(
                "drops",
                "warn",
                f"{named}: {drop.state}, and its release is published",
                "run it again: it is free",
            )
        elif drop.state in LIVE and datetime.now(UTC) - found > _LONG:
            yield Look(
                "drops",
                "warn",
                f"{named}: {drop.state}, found at {found:%Y-%m-%dT%H:%M:%SZ}",
                "see its run in Prefect's UI",
            )


def _waits(charge: Charge) -> bool:
    """Tell whether an officer is to review it next."""
    return charge.review and charge.state == "measured"


def _of(charge: Charge) -> str:
    return f"release {charge.release_id} of {charge.product}, period {charge.period}"


def _since(then: str) -> timedelta:
    return datetime.now(UTC) - datetime.fromisoformat(then)
