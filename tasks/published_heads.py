"""Heads in the publication folder, which reveal an old copy of the ledger after a home was restored.

::

    <publication folder>/<product>/.heads/<release id>              mode 0600: written before noise is drawn,
                                                                    and again when the release is published
    <publication folder>/<product>/<period>/<release id>/certificate.json    read where that file is missing

Each names the ledger, by its first entry, and the last entry that it had; a ledger that lacks the entry has
forgotten what was spent. Only a head under the agency's own key counts, so that a person who can write to the
folder cannot stop the agency; who can delete from it can make an old copy look like a new one, and against
that only a second witness helps.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium.ledger import Head, ReadOnly, durable_files
from tabularium.ledger.refusals import RESTORE
from tabularium.mechanisms.errors import LedgerError, PlaceClosed
from tabularium.tasks.input_binding import is_known
from tabularium.tasks.publish.release_folder import HEADS, make_readable_folder, release_folder
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.validations import certificate as schema
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.public_files import Unreadable, json_object, read_plain
from tabularium.validations.redaction import os_errors_as

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

_LARGEST = {HEADS: 4096, CERTIFICATE: 1 << 26}  # bytes; whatever is larger, this program has not written
_MALFORMED = (Unreadable, ValueError, KeyError, TypeError)


@dataclass(frozen=True)
class StampedHead:
    """The ledger's head as certificates state it.

    Attributes
    ----------
    chain
        Hash of the ledger's first entry, which names it.
    mac
        The agency's mark that it is genuine: of no use to anybody without the secret.
    """

    head: Head
    chain: str
    mac: str

    def fields(self) -> dict[str, Any]:
        """Return it as certificates have it."""
        return {"seq": self.head.seq, "hash": self.head.hash, "chain": self.chain, "mac": self.mac}

    @classmethod
    def read(cls, head: schema.Head) -> StampedHead:
        """Return the head that a certificate names."""
        return cls(Head(head.seq, head.hash), head.chain, head.mac)

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> StampedHead:
        """Read it from the result of :meth:`fields`."""
        return cls(Head(stated["seq"], stated["hash"]), stated["chain"], stated["mac"])


@dataclass(frozen=True)
class NamedHead:
    """A head with the agency's mark: its ledger, and the release for which it was written."""

    chain: str
    head: Head
    release_id: str


def stamped_head(run: Run, ledger: Ledger, release_id: str) -> StampedHead:
    """Return the ledger's head as certificates state it, with the agency's mark that it is genuine."""
    named = NamedHead(ledger.chain(), ledger.head(), release_id)
    return StampedHead(named.head, named.chain, _mac(named, _key(run)))


def write_head_marker(run: Run, release_id: str, stamped: StampedHead) -> None:
    """Write a head to the publication folder, durably, replacing an earlier one of this release.

    Raises
    ------
    PublicationError
        If it cannot be written.
    """
    folder = _product(run) / HEADS
    draft = folder / f".{release_id}"
    text = json.dumps({"release_id": release_id, "ledger": {"head": stamped.fields()}})
    with os_errors_as(
        PlaceClosed,
        "no word can be left here of what is about to be drawn or published: {reason}",
        where=folder,
        hint="make room or give the right to write there, and run again",
    ):
        make_readable_folder(folder.parent)
        durable_files.make_folder(folder)
        try:
            durable_files.create(draft, text.encode())
            draft.replace(folder / release_id)
        finally:
            draft.unlink(missing_ok=True)
        durable_files.sync_folder(folder)


def require_heads(run: Run, ledger: Ledger, *, tell: bool = False) -> None:
    """Make the ledger read-only if it lacks an entry that the publication folder names.

    ``tell``: whether to say what was passed over.

    Raises
    ------
    LedgerError
        If this very release was drawn under another ledger, or the home has bound an input to it or its
        folder is there, and the ledger does not know of it: it would be drawn a second time.
    """
    base, chain = _product(run).parent, ledger.chain()
    every = list(_heads(base, _key(run)))
    heads = [head for head in every if head is not None]
    unmarked = len(every) - len(heads)
    ledger.expect(head.head for head in heads if head.chain == chain)
    elsewhere = {head.release_id for head in heads if head.chain != chain}
    if tell and unmarked:
        note(
            f"passed over, since this agency's secret does not vouch for them: {unmarked} heads in {base}; "
            "if another home published there, give each home a folder of its own"
        )
    if tell and elsewhere:
        note(f"{len(elsewhere)} releases in {base} were drawn under another ledger, and are not counted here")
    if ledger.read_only is None:
        _require_new(run, ledger, run.release_id, elsewhere)


def require_new(run: Run, ledger: Ledger, name: str) -> None:
    """Refuse a name known outside the ledger and not inside, such as a tally's.

    Raises
    ------
    LedgerError
        As ``require_heads``; or if the home has bound an input to it, and the ledger does not know of it.
    """
    chain = ledger.chain()
    heads = (head for head in _heads(_product(run).parent, _key(run)) if head is not None)
    _require_new(run, ledger, name, {head.release_id for head in heads if head.chain != chain})


def _require_new(run: Run, ledger: Ledger, name: str, elsewhere: set[str]) -> None:
    charge, folder = ledger.charge(name), release_folder(run, name)
    if charge is not None and charge.state not in ("reserved", "drawing"):
        return
    if name in elsewhere:
        raise LedgerError(
            "this release was drawn under another ledger, and would be drawn a second time",
            where=f"release {name}",
            hint=f"open the ledger that drew it, or {RESTORE}; `revises` in the spec makes a new release",
        )
    if folder.exists():
        raise ReadOnly(
            "this release is published and the ledger does not know of it, so the ledger is an old copy",
            where=str(folder),
            hint=f"{RESTORE}; if this ledger is the newest, find out who put that folder there",
        )
    if charge is None and is_known(run.installation, name):
        raise ReadOnly(
            "the ledger is an old copy: an input is bound to this release, and it does not know it",
            where=f"release {name}",
            hint=RESTORE,
        )


def _product(run: Run) -> Path:
    spec = run.loaded.spec
    return run.loaded.folder / spec.publication.folder / spec.product


def _key(run: Run) -> bytes:
    return run.installation.subkey("heads")


def _heads(base: Path, key: bytes) -> Iterator[NamedHead | None]:
    """Yield the heads below a publication folder; ``None`` for each without the agency's mark."""
    known = set()
    for path in sorted(base.glob(f"*/{HEADS}/*")):
        if not path.name.startswith("."):
            head = _head_in(path, HEADS, key)
            if head is not None:
                known.add(path.name)
            yield head
    for path in sorted(base.glob(f"*/*/*/{CERTIFICATE}")):
        folder = path.parent
        if folder.name not in known and not folder.name.startswith(".") and not folder.is_symlink():
            yield _head_in(path, CERTIFICATE, key)


def _head_in(path: Path, kind: str, key: bytes) -> NamedHead | None:
    """Return the head in a head file or certificate, if it has the agency's mark."""
    try:
        document = json_object(read_plain(path, _LARGEST[kind]))
        stamped = StampedHead.of(document["ledger"]["head"])
        named = NamedHead(stamped.chain, stamped.head, document["release_id"])
        genuine = hmac.compare_digest(stamped.mac, _mac(named, key))
    except _MALFORMED:
        return None
    return named if genuine else None


def _mac(named: NamedHead, key: bytes) -> str:
    text = json.dumps([named.chain, named.head.seq, named.head.hash, named.release_id])
    return hmac.digest(key, text.encode(), "sha256").hex()
