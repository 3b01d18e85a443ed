"""What is kept of a release beside its measurements, so that a lost folder can be made anew byte for byte.

::

    <measurements>/<release id>/certificate.json     the bytes that were published
    <measurements>/<release id>/published-in         the publication folder, for backups

The tables follow from the measurements; the certificate does not: it names its time, the newest entry of the
ledger and the software.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from ledger import durable_files
from ledger.refusals import StorageFailed
from tasks.publish.release_folder import CERTIFICATE
from tasks.runtime.home import Home
from tasks.runtime.run import Run

#: Files of a release folder that do not follow from the measurements.
KEPT = (CERTIFICATE, "report.html", "bill-of-materials.cdx.json", "registry.yaml")
PLACE = "published-in"


def keep_documents(run: Run, release_id: str, folder: str | Path) -> None:
    """Keep the documents of a release that lies in ``folder``; those of an earlier attempt are replaced.

    Raises
    ------
    StorageFailed
        If they cannot be kept.
    """
    spec = run.loaded.spec
    base = run.loaded.folder / spec.publication.folder
    contents = {name: (Path(folder) / name).read_bytes() for name in KEPT if (Path(folder) / name).exists()}
    contents[PLACE] = os.fsencode(base.absolute())
    where = run.installation.measurements / release_id
    try:
        durable_files.make_folder(where)
        for name, content in contents.items():
            if not (where / name).exists() or (where / name).read_bytes() != content:
                draft = where / f".draft-0-{uuid.uuid4().hex}"  # a later attempt sweeps away what is left
                durable_files.create(draft, content)
                draft.replace(where / name)
        durable_files.sync_folder(where)
    except OSError:
        raise StorageFailed(
            "the certificate could not be kept beside the measurements",
            where=f"release {release_id}",
            mend="check the disk's space and the folder's owner, then run again",
        ) from None


def kept_documents(home: Home, release_id: str, certificate: str | None) -> dict[str, bytes] | None:
    """Return the documents of a release, if the certificate with that SHA-256 is among them."""
    where = home.measurements / release_id
    found = {name: (where / name).read_bytes() for name in KEPT if (where / name).is_file()}
    if hashlib.sha256(found.get(CERTIFICATE, b"")).hexdigest() != certificate:
        return None
    return found


def publication_folders(home: Home) -> list[Path]:
    """Return every folder into which releases of this home were published."""
    places = home.measurements.glob(f"*/{PLACE}")
    return sorted({Path(os.fsdecode(place.read_bytes())) for place in places})
