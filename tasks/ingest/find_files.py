"""Finding the files of a source: one file, a glob, or a folder of partitions.

One rule holds for a folder, a glob and what lies in a store: what is there is read, or refused by its name.
Left out is only what programs put next to data and what ``ignore`` in the spec names. Links are followed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from tabularium.mechanisms.errors import InputError, InputMissing, InputRefused
from tabularium.validations.release_spec.kinds import format_of, is_ignored
from tabularium.validations.release_spec.source import Limits

Kind = Literal["csv", "parquet"]
_WILD = "*?["
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Found:
    """The files of a source.

    Attributes
    ----------
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

    def values(self, path: Path) -> tuple[str | None, ...]:
        """Return the values of the columns in folder names for one file."""
        return tuple(_decoded(part)[1] for part in _partition(self.base, path))


def find_files(
    uri: str,
    kind: Kind | None,
    field: str = "source",
    ignore: Collection[str] = (),
    limits: Limits | None = None,
) -> Found:
    """Find the files that a path, glob or folder names.

    Parameters
    ----------
    uri
        Absolute.
    kind
        As the spec has it; from the endings when None.
    field
        Where the spec speaks of them.
    ignore
        Patterns of what may be left out, besides :data:`IGNORED`.

    Raises
    ------
    InputError
        If there is no file, one is neither data nor ignored, there are too many, a folder cannot be read, or
        the files are not of one kind.
    """
    address, limits = Path(uri), limits or Limits()
    if address.is_file():
        return Found(_one_kind([address], kind, field), address.parent, (address,), ())
    if address.is_dir():
        base, matches = address, [address]
    elif address.exists():  # a pipe, or a device
        return Found(_one_kind([address], kind, field), address.parent, (address,), ())
    elif any(mark in uri for mark in _WILD):
        base = Path(os.path.dirname(uri[: min(uri.find(m) for m in _WILD if m in uri)]))  # noqa: PTH120
        matched = glob.glob(uri, recursive=True, include_hidden=True)  # noqa: PTH207 - the pattern is absolute
        matches = [Path(match) for match in matched]
    else:
        raise InputMissing("there is no such file", where=f"{field} {uri}", hint=_check(field, "path"))
    paths = set()
    for match in matches:
        for path in _below(base, match, field, ignore):
            paths.add(path)
            require_few(len(paths), limits, field)
    if not paths:
        raise InputMissing(
            "no file is found there",
            where=f"{field} {uri}",
            hint=_check(field, "path", "format"),
        )
    for path in sorted(paths):
        require_data(path.relative_to(base).as_posix(), kind, field)
    _require_distinct(paths, field)
    return Found(
        _one_kind(sorted(paths), kind, field), base, tuple(sorted(paths)), _folders(base, paths, field)
    )


def found_again(kind: Kind, base: str, paths: Sequence[Path]) -> Found:
    """Return files that were found before; with an empty ``base``, names of folders hold no values."""
    if not base:
        return Found(kind, Path(), tuple(paths), ())
    return Found(kind, Path(base), tuple(paths), _folders(Path(base), paths, "source"))


def require_data(name: str, kind: str | None, field: str) -> None:
    """Check that a path below the source is data by its name.

    Raises
    ------
    InputRefused
        If it is hidden, or neither its ending nor the spec says how it is written.
    """
    hint = f"remove or rename it, or name it under {field}.ignore"
    if any(part.startswith((".", "_")) for part in name.split("/")):
        raise InputRefused("is next to the data under a hidden name", where=name, hint=hint)
    if kind is None and format_of(name) is None:
        what = "has an ending that does not say how it is written"
        raise InputRefused(what, where=name, hint=f"{hint}, or write {field}.format")


def require_few(number: int, limits: Limits, field: str) -> None:
    """Refuse more files than allowed."""
    if number > limits.files:
        raise InputRefused(
            f"there are more than {limits.files} files",
            where=field,
            hint=f"join them, or raise {field}.limits.files",
        )


def _check(field: str, *keys: str) -> str:
    named = " and ".join(f"{field}.{key}" for key in keys)
    return f"check {'--source, or ' if field == 'source' else ''}{named} in the spec"


def _below(base: Path, top: Path, field: str, ignore: Collection[str]) -> Iterator[Path]:
    """Yield a file, or all files below a folder that are not ignored."""
    unreadable: list[OSError] = []
    name = top.relative_to(base).as_posix()
    if top != base and is_ignored(name, ignore):
        return
    if not top.exists():
        raise InputRefused(
            "is a link that leads nowhere", where=name, hint=f"remove it, or name it under {field}.ignore"
        )
    if not top.is_dir():
        yield top
        return
    if top.is_symlink() and top.resolve() in {parent.resolve() for parent in top.parents}:
        raise InputRefused(
            "is a link to a folder that it lies in",
            where=name,
            hint=f"remove it, or name it under {field}.ignore",
        )
    try:
        entries = sorted(top.iterdir())
    except OSError as error:
        unreadable, entries = [error], []
    if unreadable:
        raise InputError("a folder cannot be read", where=f"{field} {base}", hint="check its rights")
    for entry in entries:
        yield from _below(base, entry, field, ignore)


def _require_distinct(paths: Collection[Path], field: str) -> None:
    """Refuse a file that links list twice: its records would be counted twice."""
    real: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: (path.resolve() != path, path)):
        if real.setdefault(path.resolve(), path) != path:
            raise InputRefused(
                "leads to a file that is read already",
                where=path.name,
                hint=f"remove the link, or name it under {field}.ignore",
            )


def _one_kind(paths: list[Path], kind: Kind | None, field: str) -> Kind:
    kinds = {kind or format_of(path.name) for path in paths}
    only = kinds.pop()
    if kinds or only is None:
        raise InputError(
            "the endings do not say how the files are written",
            where=f"{field}.path",
            hint=f"write {field}.format: csv or parquet",
        )
    return only


def _partition(base: Path, path: Path) -> list[str]:
    return [part for part in path.relative_to(base).parts[:-1] if "=" in part]


def _decoded(part: str) -> tuple[str, str | None]:
    """Return column and value from the name of a folder, percent signs decoded.

    Raises
    ------
    InputRefused
        If what they stand for is not UTF-8.
    """
    name, _, value = part.partition("=")
    try:
        column, text = (unquote(part, errors="strict") for part in (name, value))
    except UnicodeDecodeError:
        column = ""
    if not column:
        raise InputRefused(
            "is no name of a column and its value",
            where=f"folder {part}",
            hint="write it as column=value, in UTF-8",
        )
    return column, None if text == _NULL_FOLDER else text


def _folders(base: Path, paths: Collection[Path], field: str) -> tuple[str, ...]:
    """Return the columns in folder names, the same for every file.

    Raises
    ------
    InputError
        If files differ in them, or one is there twice.
    """
    names_in_folders = {tuple(_decoded(part)[0] for part in _partition(base, path)) for path in paths}
    columns = names_in_folders.pop()
    if names_in_folders:
        raise InputRefused(
            "the files lie in folders of different columns",
            where=f"{field}.path",
            hint="partition all files in the same way, or name those that are",
        )
    if len(set(columns)) < len(columns):
        raise InputRefused(
            "the files lie in two folders of one column",
            where=f"{field}.path",
            hint="name each column in one folder",
        )
    return columns
