"""The binding of a release to its input: kept in the home, and shown to nobody.

::

    <next to the ledger>/inputs/       mode 0700, every file 0600 and made once
        releases/<release id>          digest of (release id, input): the one input of a release; where it has
                                       look-ups, below that the same of only its main source
        accounts/<digest of source>    name of the account that is charged for this source
        .lock                          held while an input is charged

That two releases were made from the same input says that nobody was added in between, which no budget pays
for. So the input has no part in a release's name, and its digest stands in no ledger and no certificate. Here
every digest is an HMAC under a key of its own purpose, and one input looks different under every release.

A release is bound to all of its input, look-ups of the privacy unit among it. Who was charged for it already
is asked only of the main source: the same people with another look-up are the same people.

The charge commits first, the binding follows, and both come before ``drawing``. Cut off between them, a
charge is ``reserved`` without a binding: nothing was drawn for it, and the next run binds what it has. A
binding whose release the ledger does not know means that the ledger is an old copy.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.ledger.durable_files import make_folder, turn
from tabularium.mechanisms.errors import DataRefused, LedgerError
from tabularium.tasks.runtime.home import Home, make_once

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

_WAIT_SECONDS = 60.0


def is_known(home: Home, release_id: str) -> bool:
    """Whether a release was ever bound to an input."""
    return _of_release(home, release_id).exists()


def is_bound(home: Home, release_id: str, digest: str) -> bool | None:
    """Whether a release is bound to the input of a digest; ``None`` if it is bound to no input."""
    try:
        binding = _of_release(home, release_id).read_bytes()
    except FileNotFoundError:
        return None
    return hmac.compare_digest(binding.split(b"\n")[0], _binding(home, release_id, digest))


def has_source(home: Home, release_id: str, main: str) -> bool:
    """Whether a release is bound to an input with this main source, and any look-ups."""
    try:
        binding = _of_release(home, release_id).read_bytes()
    except FileNotFoundError:
        return False
    return hmac.compare_digest(binding.split(b"\n")[-1], _binding(home, release_id, main))


def require_bound(home: Home, release_id: str, digest: str, *, drawing: bool = False) -> bool:
    """Refuse an input other than the one a release is bound to; return whether it is bound.

    ``drawing``: whether noise is being drawn for it, so that it must be bound.

    Raises
    ------
    DataRefused
        If it is bound to another input.
    LedgerError
        If it is bound to none, and ``drawing``.
    """
    bound = is_bound(home, release_id, digest)
    if bound is None and drawing:
        raise LedgerError(
            "its drawing began, and which input it draws from is no longer known",
            where=f"release {release_id}",
            hint=f"restore {_folder(home)} from the backup, or give it up: tabularium ledger abandon",
        )
    if bound is False:
        raise DataRefused(
            "another input was bound to this release",
            where=f"release {release_id}",
            hint="give that input, or publish a revision, which an officer approves: --revises REASON",
        )
    return bound is not None


@dataclass(frozen=True)
class Claim:
    """The charge that claims an input.

    ``again``: whether it may be charged for several periods of the product.
    """

    release_id: str
    account: str
    product: str
    period: str
    again: bool = False


@contextmanager
def charging(
    home: Home, ledger: Ledger, claim: Claim, digest: str, main: str | None = None
) -> Iterator[None]:
    """Claim an input for the account that is charged inside the block, then bind the release to it.

    ``digest``, ``main``: of the whole input, and of its main source where it has look-ups.

    Raises
    ------
    DataRefused
        If another account was charged for the input, or this one for another period of the product, or
        another input is bound to the release.
    LedgerError
        If another process holds the inputs for a minute.
    """
    folder = _folder(home)
    for kind in ("releases", "accounts"):
        make_folder(folder / kind)
    with turn(folder / ".lock", _WAIT_SECONDS) as mine:
        if not mine:
            raise LedgerError("another process holds the inputs", where=str(folder), hint="run again")
        main = main or digest
        require_one_account(home, ledger, main, claim.account)
        require_one_period(home, ledger, claim, main)
        record = _of_input(home, main)
        if _owner(record) != claim.account:
            record.unlink(missing_ok=True)
            make_once(record, claim.account.encode())
        yield
        bound = dict.fromkeys(_binding(home, claim.release_id, name) for name in (digest, main))
        make_once(_of_release(home, claim.release_id), b"\n".join(bound))
        require_bound(home, claim.release_id, digest)


def require_one_account(home: Home, ledger: Ledger, main: str, account: str) -> None:
    """Refuse an input charged to another account: each cap would cover only a share of the charges.

    Raises
    ------
    DataRefused
        If one of that account's charges for it was not voided.
    """
    other = _owner(_of_input(home, main))
    if other is None or other == account:
        return
    charges = (charge for charge in ledger.all_charges(other) if charge.state != "voided")
    if any(has_source(home, charge.release_id, main) for charge in charges):
        theirs, ours = ledger.account(other), ledger.account(account)
        hint = f"charge it in account {other}"
        if theirs.unit != ours.unit:
            hint += (
                f", which protects one {theirs.unit} and not one {ours.unit}: write that unit into the "
                "spec; which unit fits both is in docs/how-to/open-and-cap-an-account.md"
            )
        raise DataRefused(
            f"the same input was charged in account {other}, and two caps would each hold for a share of it",
            where=f"account {account}",
            hint=hint,
        )


def require_one_period(home: Home, ledger: Ledger, claim: Claim, main: str) -> None:
    """Refuse an input charged for another period of the product, unless that is intended.

    A schedule whose file nobody replaced would otherwise spend a share of the budget each time, for the same
    people again.

    Raises
    ------
    DataRefused
        If one of those charges was not voided.
    """
    if claim.again or has_source(home, claim.release_id, main):
        return
    for charge in ledger.all_charges(claim.account):
        other = charge.product == claim.product and charge.period != claim.period
        if other and charge.state != "voided" and has_source(home, charge.release_id, main):
            raise DataRefused(
                f"the same input was charged for period {charge.period} already",
                where=f"product {claim.product}, period {claim.period}",
                hint="give the input of this period, or say that it is meant: --same-input",
            )


def _folder(home: Home) -> Path:
    return home.ledger_folder / "inputs"


def _of_release(home: Home, release_id: str) -> Path:
    return _folder(home) / "releases" / release_id


def _of_input(home: Home, main: str) -> Path:
    name = hmac.digest(home.subkey("inputs of accounts"), main.encode(), "sha256").hex()
    return _folder(home) / "accounts" / name


def _owner(record: Path) -> str | None:
    try:
        return record.read_text()
    except FileNotFoundError:
        return None


def _binding(home: Home, release_id: str, digest: str) -> bytes:
    named = f"{release_id}\0{digest}".encode()
    return hmac.digest(home.subkey("input of a release"), named, "sha256").hex().encode()
