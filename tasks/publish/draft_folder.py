"""Drafts: a release written for review, and published unchanged once it is accepted.

::

    <drafts>/<product>/<period>/<release id>/     all that is to be published, the certificate too
    <next to the ledger>/drafts/<release id>      mode 0600: where it lies, and where it is to be published

Only its owner, and the group that the spec names, can read a draft. Its certificate names the digest of every
other file, and the ledger holds the digest of the certificate before anybody is asked: what an officer reads
is what is accepted, and what is copied into the publication folder is compared with it once more. From the
draft on nothing is computed, and neither the input nor the spec is needed.
"""

from __future__ import annotations

import grp
import json
import os
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.ledger import AwaitingReview, Draft
from tabularium.ledger.durable_files import make_folder
from tabularium.ledger.refusals import unknown_release
from tabularium.mechanisms.errors import LedgerError, PublicationError
from tabularium.tasks.ledger_stages import MeasuredHandle
from tabularium.tasks.publish.documents import keep_statement
from tabularium.tasks.publish.period_index import renew_index
from tabularium.tasks.publish.release_folder import (
    PUBLIC,
    Access,
    check_release,
    check_statement,
    new_folder,
    release_folder,
    try_writing,
)
from tabularium.tasks.runtime.home import Home, make_once
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.sign.sign_release import settled_statement, sign_release
from tabularium.validations.redaction import bare_errors

if TYPE_CHECKING:
    from tabularium.ledger import Ledger


@dataclass(frozen=True)
class DraftLocation:
    """The folder of a draft, the folder where it will be published, and the tallies published with it.

    ``tallies``, ``tallies_fence``: the charge of its tallies; empty and 0 where there are none.
    """

    draft: str
    release: str
    tallies: str
    tallies_fence: int

    @classmethod
    @bare_errors
    def of(cls, home: Home, release_id: str) -> DraftLocation:
        """Read the record from the home.

        Raises
        ------
        PublicationError
            If the home does not know the draft.
        """
        path = _record(home, release_id)
        try:
            return cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            raise PublicationError(
                "where this draft lies is not known in this home",
                where=f"release {release_id}",
                hint=f"give the home that laid it out (--home), or restore {path} from the backup",
            ) from None


def draft_folder(run: Run, release_id: str) -> Path:
    """Return the folder of this release's draft."""
    spec = run.loaded.spec
    assert spec.publication.review is not None  # noqa: S101 - asked of specs that have one
    return run.loaded.folder / spec.publication.review.folder / spec.product / spec.period / release_id


def draft_access(run: Run) -> Access:
    """Return who may read a draft: its owner, and the officers' group if the spec names one.

    Raises
    ------
    PublicationError
        If there is no such group, or this process cannot give it anything.
    """
    review = run.loaded.spec.publication.review
    if review is None or review.group is None:
        return Access(0o700, 0o600)
    try:
        group = grp.getgrnam(review.group).gr_gid
    except KeyError:
        raise _unfit_group(review.group, "there is no such group") from None
    if os.geteuid() != 0 and group not in {os.getegid(), *os.getgroups()}:
        raise _unfit_group(review.group, "the user of this run is not in the group and cannot give it drafts")
    return Access(0o750, 0o640, group)


def _unfit_group(name: str, what: str) -> PublicationError:
    return PublicationError(
        what,
        where=f"publication.review.group {name}",
        hint="let an administrator correct it, or name another; nothing was charged",
    )


def target_folder(run: Run, release_id: str, *, reviewed: bool) -> tuple[Path, Access]:
    """Return the folder in which a release is written, and who may read it: a draft's, or the public one.

    A draft that was laid out stays where it was, whatever the spec says meanwhile.
    """
    if reviewed:
        known = _record(run.installation, release_id).exists()
        draft = Path(DraftLocation.of(run.installation, release_id).draft) if known else None
        return draft or draft_folder(run, release_id), draft_access(run)
    return release_folder(run, release_id), PUBLIC


def check_draft_folder(run: Run) -> None:
    """Check, before anything is paid for, that a draft can be written to its folder.

    Raises
    ------
    PublicationError
        Naming the folder, or the group.
    """
    if run.loaded.spec.publication.review is not None:
        draft_access(run)
        try_writing(draft_folder(run, run.release_id).parent)


@stage("lay out the draft")
def register_draft(
    run: Run, measured: MeasuredHandle, tallied: MeasuredHandle | None, certificate: str
) -> None:
    """Record the draft of a release in the home, then in the ledger; a second call changes nothing."""
    review = run.loaded.spec.publication.review
    assert review is not None  # noqa: S101 - only what is to be reviewed is laid out
    name = measured.release_id
    (draft, _), release = target_folder(run, name, reviewed=True), release_folder(run, name)
    laid_out = DraftLocation(
        str(draft),
        str(release),
        "" if tallied is None else tallied.release_id,
        0 if tallied is None else tallied.fence,
    )
    record = _record(run.installation, name)
    make_folder(record.parent)
    record.unlink(missing_ok=True)
    make_once(record, json.dumps(asdict(laid_out)).encode())
    with run.ledger as ledger:
        ledger.submit_draft(name, measured.fence, digest=certificate, criteria=review.criteria)
    note(f"the draft lies in {draft}, for {review.group or 'only its owner'} to read")


@stage("publish the draft")
def publish_draft(run: Run) -> str:
    """Publish the draft of this run's release unchanged; return the certificate's SHA-256.

    Raises
    ------
    AwaitingReview
        If no officer has accepted it.
    """
    with run.ledger as ledger:
        return publish_accepted(run.installation, ledger, run.release_id)


def publish_accepted(home: Home, ledger: Ledger, release_id: str) -> str:
    """Publish a draft that was accepted, byte for byte, and signed; return the certificate's SHA-256.

    The caller holds the release. Cut off anywhere it may be called again: the folder appears under its name
    whole, then the charges are closed, tallies first, then it is current, and last the draft is removed.

    Raises
    ------
    AwaitingReview
        If no officer has accepted it.
    PublicationError
        If the draft is not the one that was accepted, or cannot be published.
    """
    laid_out = DraftLocation.of(home, release_id)
    draft, charge = require_accepted(home, ledger, release_id), ledger.charge(release_id)
    if charge is None:
        raise unknown_release(release_id)
    target = Path(laid_out.release)
    if charge.state != "published":
        if not target.exists():
            _copy(home, ledger, Path(laid_out.draft), target, draft)
        if check_release(target, release_id) != draft.digest:
            raise _not_the_draft(target)
        signed = settled_statement(home, ledger, target)
        keep_statement(home, release_id, target)
        if laid_out.tallies:
            ledger.published(laid_out.tallies, laid_out.tallies_fence, digest=draft.digest)
        signature = {"statement": signed.statement, "signed_by": signed.key} if signed else {}
        ledger.published(release_id, charge.fence, digest=draft.digest, **signature)
    renew_index(ledger, target.parent)
    remove_draft(home, release_id)
    return draft.digest


def remove_draft(home: Home, release_id: str) -> None:
    """Remove the draft of a release on which an officer has decided, if it is still there."""
    if _record(home, release_id).exists():
        shutil.rmtree(DraftLocation.of(home, release_id).draft, ignore_errors=True)


def _copy(home: Home, ledger: Ledger, source: Path, target: Path, draft: Draft) -> None:
    """Write a signed copy of a draft to its target, if every byte is the one that was accepted."""
    require_whole(source, draft)
    what = "the accepted draft could not be published: {reason}"
    hint = "make room or give the right to write there, and accept it again, or run again"
    with new_folder(target, what=what, hint=hint) as aside:
        shutil.copytree(source, aside, copy_function=shutil.copyfile, dirs_exist_ok=True)
        require_whole(aside, draft)
        sign_release(home, ledger, aside)


def require_whole(folder: Path, draft: Draft) -> None:
    """Refuse a folder that is not, byte for byte, the draft that the ledger knows.

    Raises
    ------
    PublicationError
        Naming the first file that is missing, altered or foreign.
    """
    if not folder.is_dir():
        raise PublicationError(
            "the draft is gone",
            where=str(folder),
            hint="run the release again, which rebuilds it unchanged; withholding it needs no draft",
        )
    if check_release(folder, draft.release_id) != draft.digest:
        raise _not_the_draft(folder)
    check_statement(folder, None)


def _not_the_draft(folder: Path) -> PublicationError:
    return PublicationError(
        "this is not the draft that was laid out for review",
        where=str(folder),
        hint="put it back as it was laid out, from a copy",
    )


def require_accepted(home: Home, ledger: Ledger, release_id: str) -> Draft:
    """Return the draft of a release, if as many officers as needed have accepted it.

    Raises
    ------
    AwaitingReview
        If they have not decided yet; it names the draft's folder and the commands of both decisions.
    LedgerError
        If it waits for no review.
    """
    draft = ledger.draft(release_id)
    if draft is None:
        raise LedgerError(
            "waits for no review", where=f"release {release_id}", hint="see: tabularium ledger show"
        )
    if draft.accepted:
        return draft
    command, rest = "tabularium ledger", f"--key FILE --home {shlex.quote(str(home.path))}"
    decides = "an officer decides"
    if draft.needed > 1:
        decides = f"{draft.signed} officers have accepted it"
    raise AwaitingReview(
        f"is laid out as a draft in {DraftLocation.of(home, release_id).draft}, and {decides}",
        where=f"release {release_id}",
        hint=f"{command} accept {release_id} {rest}, or: {command} withhold {release_id} "
        f"--criterion {draft.criteria[0]} {rest}",
    )


def _record(home: Home, release_id: str) -> Path:
    return home.ledger_folder / "drafts" / release_id
