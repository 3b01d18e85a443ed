"""What an exported ledger says of a release, gathered once; no ledger but the export is needed."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tabularium.ledger import Account, Charge, Head, LedgerError, UnknownAccount, Withdrawal
from tabularium.ledger.records import Reservation
from tabularium.tasks.public_folder import named
from tabularium.tasks.publish.verify_certificate import head_in
from tabularium.tasks.sign.judge_statement import PublishedUnder, published_under
from tabularium.tasks.verify.subject import STATEMENT, CouldNot, Failed, Subject, failing
from tabularium.validations.certificate import Certificate
from tabularium.validations.public_files import open_plain


@dataclass(frozen=True, eq=False)
class Books:
    """What bears on one release in a ledger whose whole chain was verified.

    Attributes
    ----------
    entries, head
        How many entries the export has, and the newest.
    charge
        Of the release; None where there is none.
    paid
        The charge that paid for the measurements: the same, or that of the release it was made again from.
    tallies
        The charges that were made for its tallies, by their release ids.
    account
        That paid; None where there is none of its name.
    statement
        What it says of the release's statement and of keys for releases.
    reservation
        How the account stood when the charge was reserved.
    withdrawal
        Of the release, if an officer withdrew it.
    priors
        The charges of the releases that its tables were drawn towards, by their release ids.
    gone
        Those of them that were withdrawn.
    """

    entries: int
    head: Head
    charge: Charge | None
    paid: Charge | None
    tallies: dict[str, Charge | None]
    account: Account | None
    statement: PublishedUnder
    reservation: Reservation | None
    withdrawal: Withdrawal | None
    priors: dict[str, Charge | None]
    gone: tuple[Withdrawal, ...]


def books_of(subject: Subject) -> Books:
    """Return what the export at hand says of a release.

    Raises
    ------
    CouldNot
        No export is at hand, or it was found wrong already.
    """
    if subject.export is None:
        raise CouldNot("an export of the ledger: give --export")
    try:
        return gathered(subject, subject.export)
    except (LedgerError, Failed):
        raise CouldNot(
            "an export of the ledger that is whole and holds the head of this certificate"
        ) from None


def gathered(subject: Subject, export: Path) -> Books:
    """Verify an export and gather what it says, once.

    Raises
    ------
    LedgerError
        Its chain is not whole, or it lacks the head that the certificate names.
    CouldNot
        It lies in the release.
    """
    subject.see_got_elsewhere(export, "an export")
    with failing(), named(str(export)), open_plain(export, links=True):
        pass
    return subject.once("books", lambda: _gather(subject, export))


def _gather(subject: Subject, export: Path) -> Books:
    from tabularium.ledger import Ledger
    from tabularium.ledger.export import restore

    said = subject.certificate
    with TemporaryDirectory(prefix="tabularium-verify-") as folder:
        url = f"sqlite:///{Path(folder, 'ledger.db')}"
        found = restore(export, url, [head_in(said)], scratch=True)
        with Ledger.connect(url) as ledger:
            tallies = [each.release_id for each in said.ledger.tally_charges]
            account: Account | None = None
            with suppress(UnknownAccount):
                account = ledger.account(said.dataset)
            name = said.release_id
            charge = ledger.charge(name)
            place = subject.folder / STATEMENT
            raw = subject.read(STATEMENT) if os.path.lexists(place) else None
            priors = {each: ledger.charge(each) for each in _priors(said)}
            gone = (ledger.withdrawal(each) for each, theirs in priors.items() if theirs is not None)
            return Books(
                found.entries,
                found.head,
                charge,
                None if charge is None else ledger.charge(charge.measured_as),
                {each: ledger.charge(each) for each in tallies},
                account,
                published_under(ledger.entries(), name, raw),
                ledger.reservation(name),
                None if charge is None else ledger.withdrawal(name),
                priors,
                tuple(each for each in gone if each is not None),
            )


def _priors(said: Certificate) -> list[str]:
    return sorted({each.prior.release for each in said.tables.values() if each.prior is not None})
