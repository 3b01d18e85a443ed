"""Checks against an exported ledger: this certificate, the charges, and the account's cap."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tabularium.ledger import Account, Charge, Head, LedgerError, UnknownAccount, Withdrawal
from tabularium.ledger.records import Reservation
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.public_folder import named
from tabularium.tasks.publish.certificate.spending import account_section, approval_section
from tabularium.tasks.publish.verify_certificate import head_in, verify_certificate
from tabularium.tasks.sign.judge_statement import PublishedUnder, published_under
from tabularium.tasks.verify.subject import STATEMENT, Check, Failed, Skipped, Subject, failing
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.public_files import open_plain

_GROUP = "Ledger"


def _chain(subject: Subject) -> str:
    if subject.export is None:
        raise Skipped("an export of the ledger: give --export")
    books = gathered(subject, subject.export)
    return f"{books.entries:,} entries; compare the head with one got elsewhere: {books.head.hash}"


def _published(subject: Subject) -> str:
    """The ledger holds the digest of this certificate, and its other fields agree.

    What was withdrawn is as true as before; that it was is reported, also of what tables were drawn towards.
    """
    books = books_of(subject)
    charge, gone = books.charge, books.withdrawal
    if charge is None or charge.state != "published":
        state = "does not know it" if charge is None else f"has it as {charge.state} and not as published"
        raise Failed(f"the export {state}: it is older than the release, or of another ledger")
    try:
        verify_certificate(subject.folder / CERTIFICATE, charge)
    except TabulariumError as error:
        raise Failed(error.what) from None
    if charge.publication_digest != subject.digest:
        raise Failed("the certificate is not the one that the ledger names")
    for name, prior in subject.released.loaded.priors.items():
        theirs = books.priors.get(prior.release)
        if theirs is None or theirs.publication_digest != prior.certificate:
            raise Failed(f"the export has not published what table {name} was drawn towards")
    until = f"; not withdrawn, as far as entry {books.entries}"
    since = f"; withdrawn since, in entry {gone.entry}: {gone.reason}" if gone else until
    towards = "".join(
        f"; drawn towards release {prior.release_id}, withdrawn since, in entry {prior.entry}: {prior.reason}"
        for prior in books.gone
    )
    return f"entry {charge.seq}{since}{towards}"


def _charged(subject: Subject) -> str:
    """Every charge of the release has the amount and the terms of the certificate."""
    books, certificate = books_of(subject), subject.certificate
    if books.charge is None or books.account is None or books.paid is None:
        raise Failed("the export does not know the account or the charge")
    terms, privacy = books.account.terms, certificate.privacy
    rests, paid = certificate.ledger.rests_on, books.paid
    earlier = (paid.release_id, paid.amount, paid.measurement_digest)
    for name, ours, theirs in (
        ("ledger.amount", books.charge.amount, certificate.ledger.amount),
        *(
            ()
            if rests is None
            else (
                (f"ledger.rests_on.{name}", ours, getattr(rests, name))
                for name, ours in zip(("release_id", "amount", "measurements"), earlier, strict=True)
            )
        ),
        ("privacy.definition", terms.definition, privacy.definition),
        ("privacy.relation", terms.relation, privacy.relation),
        ("privacy.unit.entity", terms.unit, privacy.unit.entity),
        ("privacy.unit.population", books.account.population, privacy.unit.population),
    ):
        if ours != theirs:
            raise Failed(f"{name} differs from the ledger")
    total = paid.amount
    for tally_charge in certificate.ledger.tally_charges:
        charge = books.tallies[tally_charge.release_id]
        if charge is None or charge.account != certificate.dataset:
            raise Failed(f"the ledger does not know charge {tally_charge.number} for the tallies")
        if (charge.amount, charge.fence) != (tally_charge.amount, tally_charge.attempts):
            raise Failed(f"charge {tally_charge.number} for the tallies differs from the ledger")
        total += charge.amount
    loss = privacy.loss
    if total != loss:
        raise Failed(f"the ledger was charged {total}, and the certificate promises {loss}")
    by = f", all by release {paid.release_id}" if rests else ""
    return f"{total} of account {certificate.dataset}, whose cap is {terms.cap}{by}"


def _account(subject: Subject) -> str:
    """The account's cap, balance and approval when the charge was reserved are those of the certificate."""
    reservation = books_of(subject).reservation
    if reservation is None:
        raise Failed("the export does not know the charge")
    certificate, spec = subject.certificate, subject.released.spec
    for name, theirs, ours in (
        ("account", certificate.account, account_section(reservation)),
        ("approval", certificate.approval, approval_section(spec, reservation)),
    ):
        for field, value in ours:
            if field != "words" and getattr(theirs, field) != value:
                raise Failed(f"{name}.{field} differs from the ledger")
    used, terms = reservation.after.used, reservation.terms
    return f"{used} of {terms.cap} were used, this charge included"


CHECKS = (
    Check(_GROUP, "the export is one whole chain, and holds the head that the certificate names", _chain),
    Check(_GROUP, "it has published this very certificate", _published),
    Check(_GROUP, "what was charged is what the certificate says", _charged),
    Check(_GROUP, "cap, cumulative loss and approval were what the certificate says", _account),
)


# --- what an exported ledger says of a release, gathered once; no ledger but the export is needed


@dataclass(frozen=True, eq=False)
class Books:
    """The entries about one release, from a ledger whose complete chain was verified.

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
    """Return the entries of the export at hand about a release.

    Raises
    ------
    Skipped
        No export is at hand, or it was found wrong already.
    """
    if subject.export is None:
        raise Skipped("an export of the ledger: give --export")
    try:
        return gathered(subject, subject.export)
    except (LedgerError, Failed):
        raise Skipped(
            "an export of the ledger that is whole and holds the head of this certificate"
        ) from None


def gathered(subject: Subject, export: Path) -> Books:
    """Verify an export and gather its entries about a release, once.

    Raises
    ------
    LedgerError
        Its chain is not whole, or it lacks the head that the certificate names.
    Skipped
        It lies in the release.
    """
    subject.require_outside_folder(export, "an export")
    with failing(), named(str(export)), open_plain(export, links=True):
        pass
    return subject.cached("books", lambda: _gather(subject, export))


def _gather(subject: Subject, export: Path) -> Books:
    from tabularium.ledger import Ledger
    from tabularium.ledger.export import restore

    certificate = subject.certificate
    with TemporaryDirectory(prefix="tabularium-verify-") as folder:
        url = f"sqlite:///{Path(folder, 'ledger.db')}"
        restored = restore(export, url, [head_in(certificate)], scratch=True)
        with Ledger.connect(url) as ledger:
            tallies = [charge.release_id for charge in certificate.ledger.tally_charges]
            account: Account | None = None
            with suppress(UnknownAccount):
                account = ledger.account(certificate.dataset)
            name = certificate.release_id
            charge = ledger.charge(name)
            path = subject.folder / STATEMENT
            raw = subject.read(STATEMENT) if os.path.lexists(path) else None
            priors = {prior: ledger.charge(prior) for prior in _priors(certificate)}
            gone = (ledger.withdrawal(prior) for prior, theirs in priors.items() if theirs is not None)
            return Books(
                restored.entries,
                restored.head,
                charge,
                None if charge is None else ledger.charge(charge.measured_as),
                {tally: ledger.charge(tally) for tally in tallies},
                account,
                published_under(ledger.entries(), name, raw),
                ledger.reservation(name),
                None if charge is None else ledger.withdrawal(name),
                priors,
                tuple(withdrawal for withdrawal in gone if withdrawal is not None),
            )


def _priors(certificate: Certificate) -> list[str]:
    return sorted({table.prior.release for table in certificate.tables.values() if table.prior is not None})
