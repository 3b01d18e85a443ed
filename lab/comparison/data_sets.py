"""What mechanisms may be compared on: made-up data, published releases, and files that are declared public.

A comparison prints true errors, so it must never see confidential counts. What is refused: specs and
microdata, anything in a workspace or in an installation's home, files that their mode keeps from other
people, and any file of counts whose publication nobody states.
"""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.comparison.made_up import MADE_UP, made_up
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.publish.read_release import Released

Counts = NDArray[np.int64]

_FILES = (".npy", ".npz", ".csv", ".parquet")
_MOST_CELLS = 1 << 27


@dataclass(frozen=True)
class DataSet:
    """A table of counts that everyone may see; ``says`` why, in words.

    ``place`` is the name of a made-up set; or a path; for a release, folder and table with ``#`` between.
    """

    name: str
    kind: Literal["made up", "release", "file"]
    place: str
    says: str

    def counts(self) -> Counts:
        """Return the counts, read-only, int64."""
        return made_up(self.place) if self.kind == "made up" else _loaded(self)


def made_up_set(name: str) -> DataSet:
    """Return the made-up data set of that name."""
    return DataSet(name, "made up", name, MADE_UP[name].says)


def public(text: str, because: str | None) -> DataSet:
    """Return the data set that a user names: a made-up one, FOLDER or FOLDER#TABLE, or a file of counts.

    ``because`` says where the counts of a file are published.

    Raises
    ------
    InputError
        There is no such thing, or it may be confidential.
    """
    if text in MADE_UP:
        return made_up_set(text)
    folder, _, table = text.partition("#")
    path = Path(folder)
    if not path.exists():
        close = get_close_matches(text, MADE_UP, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            "there is no data set, file or folder of that name",
            where=f"--data {text}",
            hint=f"{guess}made-up sets: {', '.join(MADE_UP)}",
        )
    _refuse_what_is_inside_an_installation(path.resolve(), text)
    if path.is_dir():
        return _release(path, table, text)
    return _file(path, text, because)


def _refuse(what: str, text: str, hint: str) -> NoReturn:
    raise InputError(f"refused: {what}; a comparison shows true errors", where=f"--data {text}", hint=hint)


def _refuse_what_is_inside_an_installation(path: Path, text: str) -> None:
    for folder in (path, *path.parents):
        if (folder / "workspaces").is_dir() or folder.name in {"workspaces", "measurements"}:
            _refuse(
                "this lies in an installation's home, where confidential things are kept",
                text,
                "name a published release or a made-up set",
            )


def _release(folder: Path, table: str, text: str) -> DataSet:
    tables = list(Released.open(folder, whole=True).certificate.tables)
    if not table and len(tables) == 1:
        table = tables[0]
    if table not in tables:
        raise InputError(
            "a release has several tables" if not table else "the release has no table of that name",
            where=f"--data {text}",
            hint=f"write {folder}#NAME with one of {', '.join(tables)}",
        )
    says = f"table {table} of a published release; what is called truth here is its released counts"
    return DataSet(table, "release", f"{folder.resolve()}#{table}", says)


def _file(path: Path, text: str, because: str | None) -> DataSet:
    if path.suffix in {".yaml", ".yml"}:
        _refuse("a release spec names confidential microdata", text, "name the folder that it published")
    if path.suffix not in _FILES:
        raise InputError(
            "counts are read from .npy, .npz, .csv and .parquet files",
            where=f"--data {text}",
            hint="save the counts in one of these",
        )
    if not path.stat().st_mode & stat.S_IROTH:
        _refuse(
            "its mode keeps this file from other people", text, "if it is public, let all read it: chmod o+r"
        )
    if not because or not because.strip():
        _refuse(
            "nothing says that this file is public",
            text,
            'say where it is published: --public "Office for Statistics, table 7, 2021"',
        )
    data = DataSet(path.stem, "file", str(path.resolve()), f"public: {because.strip()}")
    data.counts()  # what is wrong with it is said now
    return data


@lru_cache(maxsize=8)
def _loaded(data: DataSet) -> Counts:
    place, _, table = data.place.partition("#")
    found = _of_release(Path(place), table) if data.kind == "release" else _of_file(Path(place))
    values = np.asarray(found)
    whole = np.rint(values.astype(np.float64)) if values.dtype.kind == "f" else values
    if whole.dtype.kind not in "iuf" or (whole.dtype.kind == "f" and not np.isfinite(whole).all()):
        raise InputError("the counts are not numbers", where=data.name, hint="correct the file")
    counts = np.maximum(whole, 0).astype(np.int64)
    if counts.size == 0 or counts.size > _MOST_CELLS:
        raise InputError(f"a table of 1 to {_MOST_CELLS:,} cells is needed", where=data.name, hint="cut it")
    counts.setflags(write=False)
    return counts


def _of_release(folder: Path, table: str) -> NDArray[Any]:
    return Released.open(folder).columns(table, "count")[0]


def _of_file(path: Path) -> NDArray[Any]:
    """Return the counts: an array, or a column called ``count``."""
    if path.suffix in {".npy", ".npz"}:
        try:
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                return np.asarray(loaded["counts"] if path.suffix == ".npz" else loaded)
        except (ValueError, KeyError, OSError):
            raise InputError(
                "no counts were found", where=path.name, hint="an .npz file holds them under the name counts"
            ) from None
    if path.suffix == ".parquet":
        import pyarrow.parquet

        names = pyarrow.parquet.ParquetFile(path).schema_arrow.names
        if "count" not in names:
            _no_counts(path)
        return np.asarray(pyarrow.parquet.read_table(path, columns=["count"])["count"].to_numpy())
    return np.array(list(_csv_column(path)))


def _csv_column(path: Path) -> Iterator[float]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if "count" not in (rows.fieldnames or []):
            _no_counts(path)
        for number, row in enumerate(rows, start=2):
            try:
                yield float(row["count"])
            except (TypeError, ValueError):
                raise InputError(
                    "this is not a number",
                    where=f"{path.name}, line {number}, column count",
                    hint="correct the file",
                ) from None


def _no_counts(path: Path) -> NoReturn:
    raise InputError(
        "there is no column called count: this may be microdata, which a comparison does not take",
        where=path.name,
        hint="give a table with one row per cell and its count",
    )
