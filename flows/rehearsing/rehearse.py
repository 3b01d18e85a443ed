"""A rehearsal: made-up records, the whole chain, and a folder in which everything says that it was none."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tabularium.flows.rehearsing.apart import released_apart
from tabularium.flows.rehearsing.made_up_records import MadeUpRecords
from tabularium.flows.rehearsing.rehearsed_spec import STAMP, write_rehearsed
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.publish.documents.making import DOCUMENTS, without_documents
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.report import report
from tabularium.tasks.runtime.progress import observed
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate, Rehearsed
from tabularium.validations.spec.load import Loaded, load_spec
from tabularium.validations.spec.parts.source_part import located

FOLDER = "rehearsal"
ROWS = 10_000
_MOST_ROWS = 1_000_000  # that a rehearsal chooses by itself
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
        replaced.
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
        Something else lies in the folder, or ``like`` has no table of the spec's columns.
    TabulariumError
        As a release would.
    """
    loaded = load_spec(path, period=period, rehearsed=True)
    target = (loaded.folder / FOLDER if folder is None else folder).absolute()
    _see_free(target)
    expected = loaded.spec.size if like is None else _counted_in(like)
    many = rows or min(expected or ROWS, _MOST_ROWS)
    if many <= 0:
        raise InputError("is no number of records", where="rows", mend="give a whole number above zero")
    with TemporaryDirectory(prefix="tabularium-rehearsal-") as place:
        here = Path(place)
        with observed("make up records"):
            records = MadeUpRecords(loaded, many, seed, _public_keys(loaded), like)
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
        released = released_apart(here / "spec.yaml", here / "home")
        with observed("stamp it"):
            made_up = {
                "records": many,
                "like": None if like is None else like.certificate.release_id,
                "seed": seed,
                "says": _SAYS,
            }
            _stamp(released, made_up)
            _put(released, target)
    return target


def _see_free(target: Path) -> None:
    free = not os.path.lexists(target) or (target / REHEARSAL).is_file()
    if not free and (not target.is_dir() or any(target.iterdir())):
        raise InputError("something else lies here", where=str(target), mend="name another folder with --out")


def _counted_in(like: Released) -> int:
    return max(1, *(each.total for each in like.certificate.tables.values()))


def _public_keys(loaded: Loaded) -> dict[str, pa.Array]:
    """Return the keys that stand in public look-ups, as text."""
    found = {}
    for name, look in loaded.spec.lookups.items():
        if look.public is None or look.key is None:
            continue
        path = located(look.path or "", loaded.spec.period, loaded.folder)
        if look.file_format == "parquet":
            column = pq.read_table(path, columns=[look.key])[look.key].cast(pa.string())
        else:
            column = pyarrow.csv.read_csv(
                path,
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=look.delimiter, quote_char=False if look.quote == "none" else look.quote
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=[look.key], column_types={look.key: pa.string()}
                ),
            )[look.key]
        found[name] = column.combine_chunks().drop_null()
    return found


def _stamp(folder: Path, made_up: dict[str, Any]) -> None:
    """Turn a release into a rehearsal: no certificate, and no document but a report that says what it is."""
    told = without_documents(Certificate.read((folder / CERTIFICATE).read_bytes()))
    for name in (CERTIFICATE, *DOCUMENTS):
        (folder / name).unlink(missing_ok=True)
    page = report(folder, told, None, compared_with=(f"{STAMP}.", _SAYS))
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
