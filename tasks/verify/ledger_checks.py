"""Whether an exported ledger holds this release: the very certificate, what was charged, and the cap."""

from __future__ import annotations

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.publish.certificate.account_section import account_section, approval_section
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.verify.books import books_of, gathered
from tabularium.tasks.verify.subject import Check, CouldNot, Failed, Subject
from tabularium.validations.certificate import CERTIFICATE

_GROUP = "Ledger"


def _chain(subject: Subject) -> str:
    if subject.export is None:
        raise CouldNot("an export of the ledger: give --export")
    books = gathered(subject, subject.export)
    return f"{books.entries:,} entries; compare the head with one got elsewhere: {books.head.hash}"


def _published(subject: Subject) -> str:
    """The ledger holds the digest of this very certificate, and the rest of it agrees.

    What was withdrawn is as true as before; that it was is said, also of what tables were drawn towards.
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
        f"; drawn towards release {each.release_id}, withdrawn since, in entry {each.entry}: {each.reason}"
        for each in books.gone
    )
    return f"entry {charge.seq}{since}{towards}"


def _charged(subject: Subject) -> str:
    """Every charge of the release costs what the certificate says, under the terms that it names."""
    books, said = books_of(subject), subject.certificate
    if books.charge is None or books.account is None or books.paid is None:
        raise Failed("the export does not know the account or the charge")
    terms, privacy = books.account.terms, said.privacy
    rests, paid = said.ledger.rests_on, books.paid
    earlier = (paid.release_id, paid.amount, paid.measurement_digest)
    for name, ours, theirs in (
        ("ledger.amount", books.charge.amount, said.ledger.amount),
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
    for each in said.ledger.tally_charges:
        charge = books.tallies[each.release_id]
        if charge is None or charge.account != said.dataset:
            raise Failed(f"the ledger does not know charge {each.number} for the tallies")
        if (charge.amount, charge.fence) != (each.amount, each.attempts):
            raise Failed(f"charge {each.number} for the tallies differs from the ledger")
        total += charge.amount
    told = privacy.loss
    if total != told:
        raise Failed(f"the ledger was charged {total}, and the certificate promises {told}")
    by = f", all by release {paid.release_id}" if rests else ""
    return f"{total} of account {said.dataset}, whose cap is {terms.cap}{by}"


def _account(subject: Subject) -> str:
    """The account's cap, what was left of it, and who had approved the spec, as the charge was reserved."""
    found = books_of(subject).reservation
    if found is None:
        raise Failed("the export does not know the charge")
    said, spec = subject.certificate, subject.released.spec
    for name, theirs, ours in (
        ("account", said.account, account_section(found)),
        ("approval", said.approval, approval_section(spec, found)),
    ):
        for field, value in ours:
            if field != "words" and getattr(theirs, field) != value:
                raise Failed(f"{name}.{field} differs from the ledger")
    used, terms = found.after.used, found.terms
    return f"{used} of {terms.cap} were used, this charge included"


CHECKS = (
    Check(_GROUP, "the export is one whole chain, and holds the head that the certificate names", _chain),
    Check(_GROUP, "it has published this very certificate", _published),
    Check(_GROUP, "what was charged is what the certificate says", _charged),
    Check(_GROUP, "cap, cumulative loss and approval were what the certificate says", _account),
)
