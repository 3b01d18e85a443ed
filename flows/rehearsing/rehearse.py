"""Rehearsals: a spec is run on made-up records, and all that comes out is marked as a rehearsal."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.flows.rehearsing.apart import released_apart
from tabularium.flows.rehearsing.made_up_records import MadeUpRecords
from tabularium.flows.rehearsing.rehearsed_spec import STAMP, as_declared, write_rehearsed
from tabularium.mechanisms.errors import InputError, PlaceClosed
from tabularium.tasks.ingest.ingest import ingest_public
from tabularium.tasks.ingest.open_source import keys_of
from tabularium.tasks.publish.documents import DOCUMENTS, without_documents
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import is_rehearsal, try_writing
from tabularium.tasks.report.report import report
from tabularium.tasks.runtime.progress import observed
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate, Rehearsed
from tabularium.validations.redaction import bare_errors
from tabularium.validations.release_spec.load import Loaded, load_spec

FOLDER = "rehearsal"
ROWS = 10_000
_MOST_CHOSEN = 1_000_000  # records where nobody says how many
_MOST_ROWS = 100_000_000  # they are all held in memory
_REPORT = "report.html"
_SAYS = (
    "All records were made up from the public domains of the spec. No number here is about anybody, and no "
    "budget was spent."
)


def rehearse(
    path: Path,
    folder: Path | None,
    *,
    period: str | None = None,
    rows: int | None = None,
    like: Released | None = None,
    seed: int = 1,
) -> Path:
    """Try a spec on made-up records, through the whole chain under a home that is thrown away.

    No source, private look-up, earlier release or home is opened.

    Parameters
    ----------
    folder
        Where the outcome goes; ``rehearsal`` beside the spec unless said. A rehearsal that is there is
        replaced, unless other files lie in its folder.
    rows
        How many records; unless said as many as ``like`` counts, or the spec expects under ``size`` (up to a
        million), or 10 000.
    like
        A published release whose tables the records are to be like.

    Raises
    ------
    SpecProblems
        The spec is not in order.
    InputError
        Something else lies in the folder, it cannot be written, ``rows`` or ``seed`` is out of range, a
        public look-up cannot be read, or ``like`` has no table of the spec's columns.
    TabulariumError
        As a release would.
    """
    _see_range("rows", rows, 1, _MOST_ROWS)
    _see_range("seed", seed, 0, None)
    loaded = load_spec(path, period=period, rehearsed=True)
    target = (loaded.folder / FOLDER if folder is None else folder).absolute()
    _see_free(target)
    many, why = _how_many(rows, loaded, like)
    with TemporaryDirectory(prefix="tabularium-rehearsal-") as place:
        here = Path(place)
        with observed("make up records"):
            records = MadeUpRecords(loaded, many, seed, _public_keys(loaded, here), like)
            pq.write_table(records.source(), here / "records.parquet")
            private = [name for name, look in loaded.spec.lookups.items() if look.public is None]
            for name in private:
                pq.write_table(records.look_up(name), here / f"{name}.parquet")
        write_rehearsed(
            loaded,
            here / "spec.yaml",
            source=here / "records.parquet",
            lookups={name: here / f"{name}.parquet" for name in private},
        )
        released = released_apart(here / "spec.yaml", here / "home", loaded.path)
        with observed("mark as a rehearsal"):
            made_up = {
                "records": many,
                "why": why,
                "like": None if like is None else like.certificate.release_id,
                "seed": seed,
                "says": _SAYS,
            }
            _stamp(released, loaded, made_up)
            _see_free(target)  # minutes may have passed
            _put(released, target)
    return target


def _see_range(name: str, number: int | None, least: int, most: int | None) -> None:
    if number is not None and (number < least or (most is not None and number > most)):
        end = "" if most is None else f" and at most {most:,}"
        raise InputError("the number is out of range", where=name, hint=f"give at least {least}{end}")


@bare_errors
def _see_free(target: Path) -> None:
    """See that a rehearsal can be put at ``target``, and that it would replace nothing but a rehearsal."""
    hint = "name another folder with --out"
    if target.is_dir() and is_rehearsal(target):
        foreign = _foreign(target)
        if foreign:
            raise InputError(
                f"{foreign[0]!r} is no part of the rehearsal in this folder, and would be deleted with it",
                where=str(target),
                hint=f"take it out of the folder, or {hint}",
            )
    elif os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise InputError("something else lies here", where=str(target), hint=hint)
    try:
        try_writing(target.parent)
    except PlaceClosed as error:
        raise InputError(error.what, where=str(target), hint=hint) from None


def _foreign(folder: Path) -> list[str]:
    """Return what lies in the folder of a rehearsal and is not in its list of files."""
    try:
        named = {REHEARSAL, *json.loads((folder / REHEARSAL).read_bytes())["files"]}
    except (OSError, ValueError, LookupError, TypeError):
        named = set()
    there = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted({path.relative_to(folder).as_posix() for path in there} - named)


def _how_many(rows: int | None, loaded: Loaded, like: Released | None) -> tuple[int, str]:
    """Return how many records are made up, and why so many."""
    if rows is not None:
        return rows, "given as rows"
    if like is not None:
        wanted = max(1, *(each.total for each in like.certificate.tables.values()))
        who = "the release that they are like counts"
    elif loaded.spec.size is not None:
        wanted, who = loaded.spec.size, "the spec expects"
    else:
        return ROWS, "the default where neither rows, like nor size says how many"
    if wanted <= _MOST_CHOSEN:
        return wanted, f"as many as {who}"
    return _MOST_CHOSEN, (
        f"{who} {wanted:,}, and a rehearsal makes at most {_MOST_CHOSEN:,} unless rows says more; margins of "
        "means, rates and medians are wider here than in the release"
    )


def _public_keys(loaded: Loaded, scratch: Path) -> dict[str, pa.Array]:
    """Return the keys that stand in public look-ups, as text."""
    names = [name for name, look in loaded.spec.lookups.items() if look.public is not None]
    return {name: keys_of(loaded, name, ingest_public(loaded, name, scratch), scratch) for name in names}


def _stamp(folder: Path, loaded: Loaded, made_up: dict[str, Any]) -> None:
    """Turn a release into a rehearsal: no certificate, and no document but a report that says what it is."""
    told = without_documents(Certificate.read((folder / CERTIFICATE).read_bytes()))
    told = as_declared(told, loaded)
    for name in (CERTIFICATE, *DOCUMENTS):
        (folder / name).unlink(missing_ok=True)
    number = f"{made_up['records']:,} records were made up: {made_up['why']}."
    page = report(folder, told, None, compared_with=(f"{STAMP}.", number, _SAYS))
    (folder / _REPORT).write_bytes(page)
    document = {"rehearsal": made_up, **told.document()}
    document["files"][_REPORT] = hashlib.sha256(page).hexdigest()
    Rehearsed.of(document)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / REHEARSAL).write_text(text, encoding="utf-8")


def _put(released: Path, target: Path) -> None:
    """Put a rehearsal in its place, whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rehearsal-", dir=target.parent) as aside:
        shutil.copytree(released, Path(aside) / "new")
        if target.exists():
            target.rename(Path(aside) / "old")
        (Path(aside) / "new").rename(target)
