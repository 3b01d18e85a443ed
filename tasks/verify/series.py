"""Whether releases follow one another: on one ledger, in its order, and what was spent only grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ledger import Head, LedgerError
from ledger.chain.export import verify_export
from tasks.publish.certificate.sections import public_digests
from tasks.publish.verify_certificate import differences, head_in
from tasks.verify.findings import CouldNot, Failed, Finding
from tasks.verify.subject import Subject
from validations.spec.load import measurement_plan

_GROUP = "Series"
_IN_ORDER = "the releases are given in the order of the ledger's entries, each once"
_ONE_CHAIN = "the heads that they name lie on one chain"
_GROWS = "what their account had spent does not become less"
_RESTS = "what is remade has the measurements, and the plan of measuring, of the release that it names"


def verify_series(subjects: Sequence[Subject], export: Path | None) -> list[Finding]:
    """Hold releases against one another, the oldest first.

    Each is to be verified by itself as well (:func:`tasks.verify.verify_release.verify_release`).
    """
    return [_in_order(subjects), _on_one_chain(subjects, export), _grows(subjects), *_rests(subjects)]


def _heads(subjects: Sequence[Subject]) -> list[Head]:
    return [head_in(each.certificate) for each in subjects]


def _in_order(subjects: Sequence[Subject]) -> Finding:
    heads, ids = _heads(subjects), [str(each.certificate["release_id"]) for each in subjects]
    for place in range(1, len(heads)):
        if heads[place].seq < heads[place - 1].seq or ids[place] in ids[:place]:
            wrong = f"{subjects[place].folder} does not come after {subjects[place - 1].folder}"
            return Finding(_GROUP, _IN_ORDER, "failed", wrong)
    return Finding(_GROUP, _IN_ORDER, "checked", f"{len(heads)} releases")


def _on_one_chain(subjects: Sequence[Subject], export: Path | None) -> Finding:
    if export is None:
        return Finding(_GROUP, _ONE_CHAIN, "unchecked", "an export of the ledger: give --export")
    try:
        found = verify_export(export, _heads(subjects))
    except LedgerError as error:
        return Finding(_GROUP, _ONE_CHAIN, "failed", error.line())
    return Finding(_GROUP, _ONE_CHAIN, "checked", f"{found.entries:,} entries")


def _grows(subjects: Sequence[Subject]) -> Finding:
    """Compare what each certificate says was spent of its account, with its own charge in it."""
    spent: dict[str, Fraction] = {}
    for each in subjects:
        figure = cumulative(each)
        if figure is None:
            return Finding(_GROUP, _GROWS, "unchecked", "certificates that name what their account had spent")
        account = str(each.certificate["dataset"])
        if figure < spent.get(account, Fraction()):
            wrong = f"{each.folder}: account {account} had spent less than at the release before"
            return Finding(_GROUP, _GROWS, "failed", wrong)
        spent[account] = figure
    return Finding(_GROUP, _GROWS, "checked", ", ".join(f"{name}: {sum_}" for name, sum_ in spent.items()))


def _rests(subjects: Sequence[Subject]) -> list[Finding]:
    """Hold each release that rests on another one against that one, where it is given too."""
    known = {str(each.certificate["release_id"]): each for each in subjects}
    found = []
    for each in subjects:
        rests = each.certificate["ledger"].get("rests_on")
        earlier = None if rests is None else known.get(str(rests["release_id"]))
        if rests is not None and earlier is not None:
            found.append(_rests_on(each, earlier, rests))
    return found


def _rests_on(subject: Subject, earlier: Subject, rests: Mapping[str, Any]) -> Finding:
    theirs = earlier.certificate["measurements"]["digest"], earlier.certificate["ledger"]["amount"]
    try:
        one, other = (
            measurement_plan(each.released.spec, public_digests(each.certificate["files"]))
            for each in (earlier, subject)
        )
    except (CouldNot, Failed):
        return Finding(_GROUP, _RESTS, "unchecked", "specs and code lists that can be read")
    different = next(differences(one, other), None)
    if (rests["measurements"], rests["amount"]) != theirs:
        different = "ledger.rests_on"
    if different is not None:
        return Finding(
            _GROUP, _RESTS, "failed", f"{subject.folder}: {different} differs from {earlier.folder}"
        )
    return Finding(_GROUP, _RESTS, "checked", f"{subject.folder} rests on {earlier.folder}")


def cumulative(subject: Subject) -> Fraction | None:
    """Return what a certificate says was spent and reserved of its account, its own charge included."""
    try:
        return Fraction(subject.certificate["account"]["cumulative"]["used"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
