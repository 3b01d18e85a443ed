"""Whether releases follow one another: on one ledger, in its order, and what was spent only grows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from tabularium.ledger import Head
from tabularium.tasks.publish.certificate.sections import public_digests
from tabularium.tasks.publish.verify_certificate import differences, head_in
from tabularium.tasks.verify.subject import Check, Failed, Finding, Skipped, Subject
from tabularium.tasks.verify.verify_release import looked
from tabularium.validations.certificate import RestsOn
from tabularium.validations.release_spec.load import measurement_plan

_GROUP = "Series"


def verify_series(subjects: Sequence[Subject], export: Path | None) -> list[Finding]:
    """Hold releases against one another, the oldest first.

    Each is to be verified by itself as well (:func:`tabularium.tasks.verify.verify_release.verify_release`).
    """
    checks = (
        Check(_GROUP, "the releases are given in the order of the ledger's entries, each once", _in_order),
        Check(
            _GROUP, "the heads that they name lie on one chain", lambda these: _on_one_chain(these, export)
        ),
        Check(_GROUP, "what their account had spent does not become less", _grows),
        Check(
            _GROUP, "what is remade has the measurements, and the plan of measuring, of what it names", _rests
        ),
    )
    return [looked(check, subjects) for check in checks]


def _heads(subjects: Sequence[Subject]) -> list[Head]:
    return [head_in(each.certificate) for each in subjects]


def _in_order(subjects: Sequence[Subject]) -> str:
    heads, ids = _heads(subjects), [each.certificate.release_id for each in subjects]
    for place in range(1, len(heads)):
        if heads[place].seq < heads[place - 1].seq or ids[place] in ids[:place]:
            raise Failed(f"{subjects[place].folder} does not come after {subjects[place - 1].folder}")
    return f"{len(heads)} releases"


def _on_one_chain(subjects: Sequence[Subject], export: Path | None) -> str:
    if export is None:
        raise Skipped("an export of the ledger: give --export")
    from tabularium.ledger.export import verify_export

    return f"{verify_export(export, _heads(subjects)).entries:,} entries"


def _grows(subjects: Sequence[Subject]) -> str:
    """Compare what each certificate says was spent of its account, with its own charge in it."""
    spent: dict[str, Fraction] = {}
    for each in subjects:
        figure = each.certificate.account.cumulative.used
        account = each.certificate.dataset
        if figure < spent.get(account, Fraction()):
            raise Failed(f"{each.folder}: account {account} had spent less than at the release before")
        spent[account] = figure
    return ", ".join(f"{name}: {sum_}" for name, sum_ in spent.items())


def _rests(subjects: Sequence[Subject]) -> str:
    """Hold each release that rests on another one against that one, where it is given too."""
    known = {each.certificate.release_id: each for each in subjects}
    held = []
    for each in subjects:
        rests = each.certificate.ledger.rests_on
        earlier = None if rests is None else known.get(rests.release_id)
        if rests is not None and earlier is not None:
            _rests_on(each, earlier, rests)
            held.append(f"{each.folder} rests on {earlier.folder}")
    return "; ".join(held) or "none of these is"


def _rests_on(subject: Subject, earlier: Subject, rests: RestsOn) -> None:
    theirs = earlier.certificate.measurements.digest, earlier.certificate.ledger.amount
    one, other = (
        measurement_plan(each.released.spec, public_digests(each.certificate.files))
        for each in (earlier, subject)
    )
    different = next(differences(one, other), None)
    if (rests.measurements, rests.amount) != theirs:
        different = "ledger.rests_on"
    if different is not None:
        raise Failed(f"{subject.folder}: {different} differs from {earlier.folder}")
