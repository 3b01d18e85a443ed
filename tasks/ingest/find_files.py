"""Finding the files of a source: one file, a glob, or a folder of partitions."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from mechanisms.errors import InputError, InputMissing, InputRefused
from validations.spec.kinds import format_of

Kind = Literal["csv", "parquet"]
_WILD = "*?["


@dataclass(frozen=True)
class Found:
    """The files of a source.

    Attributes
    ----------
    kind
        How they are written.
    base
        The folder below which they were found.
    paths
        Absolute, sorted.
    folders
        Names of the columns that stand in folder names (``region=01/``), outermost first.
    """

    kind: Kind
    base: Path
    paths: tuple[Path, ...]
    folders: tuple[str, ...]

    def partition(self, path: Path) -> str:
        """Return the part of a file's path that holds values: ``region=01/sex=F``, or nothing."""
        return "/".join(_partition(self.base, path))


def find_files(uri: str, kind: Kind | None, field: str = "source") -> Found:
    """Find the files that a path, glob or folder names.

    Parameters
    ----------
    uri
        Absolute.
    kind
        As the spec says; told from the endings when None.
    field
        Where the spec speaks of them.

    Raises
    ------
    InputError
        If there is no file, a folder cannot be read, or the files are not of one kind.
    """
    place = Path(uri)
    if place.is_dir():
        base, paths = place, _below(place, field)
    elif place.exists():
        return Found(_one_kind([place], kind, field), place.parent, (place,), ())
    elif any(mark in uri for mark in _WILD):
        base = Path(os.path.dirname(uri[: min(uri.find(m) for m in _WILD if m in uri)]))  # noqa: PTH120
        matches = glob.glob(uri, recursive=True)  # noqa: PTH207 - the pattern is absolute
        paths = sorted(path for path in map(Path, matches) if path.is_file() and _visible(base, path))
    else:
        raise InputMissing("there is no such file", where=f"{field} {uri}", mend=_check(field, "path"))
    paths = [path for path in paths if kind is not None or format_of(path.name) is not None]
    if not paths:
        raise InputMissing(
            "no file is found there",
            where=f"{field} {uri}",
            mend=_check(field, "path", "format"),
        )
    return Found(_one_kind(paths, kind, field), base, tuple(paths), _folders(base, paths, field))


def _check(field: str, *keys: str) -> str:
    named = " and ".join(f"{field}.{key}" for key in keys)
    return f"check {'--source, or ' if field == 'source' else ''}{named} in the spec"


def _below(base: Path, field: str) -> list[Path]:
    """Return the visible files below a folder; an unreadable folder is an error, not an empty one."""
    unreadable: list[str] = []
    paths = []
    for folder, _, names in os.walk(base, onerror=lambda error: unreadable.append(str(error.filename))):
        paths += [Path(folder) / name for name in names]
    if unreadable:
        raise InputError("a folder cannot be read", where=f"{field} {base}", mend="check its rights")
    return sorted(path for path in paths if _visible(base, path))


def _visible(base: Path, path: Path) -> bool:
    """Leave out what other programs put beside data: ``_SUCCESS``, ``.part.crc``."""
    return not any(part.startswith((".", "_")) for part in path.relative_to(base).parts)


def _one_kind(paths: list[Path], kind: Kind | None, field: str) -> Kind:
    kinds = {kind or format_of(path.name) for path in paths}
    only = kinds.pop()
    if kinds or only is None:
        raise InputError(
            "the endings do not say how the files are written",
            where=f"{field}.path",
            mend=f"write {field}.format: csv or parquet",
        )
    return only


def _partition(base: Path, path: Path) -> list[str]:
    return [part for part in path.relative_to(base).parts[:-1] if "=" in part]


def _folders(base: Path, paths: list[Path], field: str) -> tuple[str, ...]:
    """Return the columns in folder names, the same for every file.

    Raises
    ------
    InputError
        If files differ in them, or a folder above the source looks like one: the engine would take it in.
    """
    found = {tuple(unquote(part.partition("=")[0]) for part in _partition(base, path)) for path in paths}
    columns = found.pop()
    if found:
        raise InputRefused(
            "the files lie in folders of different columns",
            where=f"{field}.path",
            mend="partition all files alike, or name those that are",
        )
    if columns and any("=" in part for part in base.parts):
        raise InputError(
            "a folder above the partitioned source has = in its name",
            where=f"{field}.path",
            mend="name the outermost partitioned folder",
        )
    return columns
