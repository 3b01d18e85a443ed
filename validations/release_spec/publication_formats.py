"""Publication formats by name: what the spec, and readers of a release folder, must know of each.

A format is a class below `tabularium.tasks.publish.formats.base.TableFormat`, imported when it is first asked
for. Ours are named here; a package adds its own by an entry point of the group ``tabularium.formats``, whose
name is the format's and whose value is the class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tabularium.mechanisms.errors import InputError
from tabularium.validations.domains.domains import Domain
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import RESERVED, PartialSpec
from tabularium.validations.release_spec.problems import quoted

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "tabularium.formats"
_CLASSES = {
    "csv": "tabularium.tasks.publish.formats.csv:Csv",
    "parquet": "tabularium.tasks.publish.formats.parquet:Parquet",
    "sdmx": "tabularium.tasks.publish.formats.sdmx.format:Sdmx",
    "xlsx": "tabularium.tasks.publish.formats.xlsx:Xlsx",
    "px": "tabularium.tasks.publish.formats.px:Px",
    "jsonstat": "tabularium.tasks.publish.formats.jsonstat:JsonStat",
    "catalogue": "tabularium.tasks.publish.formats.catalogue:Catalogue",
}


@dataclass(frozen=True)
class FileKind:
    """A kind of file that a format writes.

    Attributes
    ----------
    ending
        Behind the name of the table, or behind ``stem``: ``.sdmx.csv``.
    words
        What lists of downloads call it.
    title, media_type, file_type
        What catalogues say of it: a title, IANA's media type, and a file type of the European Union's list.
        Catalogues leave out what has no title.
    stem
        The name of the one file of the whole release; None where each table has one.
    """

    ending: str
    words: str
    title: str = ""
    media_type: str = ""
    file_type: str = ""
    stem: str | None = None


class PublicationFormat:
    """A format as the spec sees it.

    Attributes
    ----------
    name
        In ``publication.formats``.
    summary
        One line of Markdown for people: which files it writes.
    kinds
        Every kind of file that it may write, the rows of a table first.
    complete
        Whether every row and column is in its files exactly, so that readers need no other format.
    seekable
        Whether rows can be read without those before them.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    kinds: ClassVar[tuple[FileKind, ...]]
    complete: ClassVar[bool] = False
    seekable: ClassVar[bool] = False

    def files(self, spec: ReleaseSpec) -> set[str]:
        """Return the names of the files that it writes in a release of this spec."""
        names = [*(table.name for table in spec.tables), *(histogram.name for histogram in spec.histograms)]
        return {
            f"{stem}{kind.ending}"
            for kind in self.kinds
            for stem in (names if kind.stem is None else [kind.stem])
        }

    def check(self, partial: PartialSpec) -> None:
        """Add to a spec's problems what this format cannot write; domains and tables are checked already."""

    def advice(self, spec: ReleaseSpec, domains: Mapping[str, Domain]) -> Iterator[str]:
        """Yield what is allowed and may not be intended, a line each."""
        yield from ()

    def read_codes(self, path: Path, codes: Collection[str], number: str, most: int) -> pa.Table:
        """Return columns of codes, as text, and one of numbers, of a file that any release may have written.

        Raises
        ------
        Unreadable, OSError, pyarrow.ArrowException, KeyError
            It holds no such columns.
        """
        raise NotImplementedError


class _Formats(Mapping[str, PublicationFormat]):
    """Name -> format: ours, then those of installed packages by their names."""

    def __getitem__(self, name: str) -> PublicationFormat:
        if name not in _CLASSES and name not in _plugins():
            raise KeyError(name)
        return _format(name)

    def __iter__(self) -> Iterator[str]:
        yield from _CLASSES
        yield from sorted(_plugins().keys() - _CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES.keys() | _plugins())

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES or name in _plugins()


FORMATS = _Formats()


@cache
def _plugins() -> dict[str, metadata.EntryPoint]:
    return {entry_point.name: entry_point for entry_point in metadata.entry_points(group=GROUP)}


@cache
def _format(name: str) -> PublicationFormat:
    if name in _CLASSES:
        module, _, cls = _CLASSES[name].partition(":")
        instance: PublicationFormat = getattr(import_module(module), cls)()
        return instance
    entry = _plugins()[name]
    try:
        instance = entry.load()()
    except Exception as error:
        raise InputError(
            f"the format {quoted(name)} cannot be loaded ({type(error).__name__})",
            where=entry.value,
            hint="install the package that brings it again, or take it out of publication.formats",
        ) from None
    kinds = getattr(instance, "kinds", ())
    complete = (
        bool(kinds) and all(isinstance(kind, FileKind) for kind in kinds) and hasattr(instance, "summary")
    )
    if not isinstance(instance, PublicationFormat) or getattr(instance, "name", None) != name or not complete:
        raise InputError(
            f"what is registered as the format {quoted(name)} is not a TableFormat of this name, with a "
            "summary and its kinds of files",
            where=entry.value,
            hint="correct the class, or the entry point, in the package that brings it",
        )
    ours = {
        (kind_of_file.stem, kind_of_file.ending)
        for known in _CLASSES
        for kind_of_file in _format(known).kinds
    }
    taken = next((e for e in kinds if (e.stem, e.ending) in ours or e.stem in RESERVED), None)
    if taken is not None:
        file = f"{taken.stem or '<table>'}{taken.ending}"
        raise InputError(
            f"the format {quoted(name)} writes {file}, which is a file of others",
            where=entry.value,
            hint="give its files another ending, in the package that brings it",
        )
    return instance


def _sound() -> Iterator[PublicationFormat]:
    """Yield the formats that load: one that does not is named when a spec wants it."""
    for name in FORMATS:
        try:
            known_format = FORMATS[name]
        except InputError:
            continue
        yield known_format


def complete_formats() -> list[str]:
    """Return the names of formats; a release needs one of them."""
    return [one_format.name for one_format in _sound() if one_format.complete]


def read_first(names: Collection[str]) -> list[PublicationFormat]:
    """Return the complete formats among these, the one that numbers are read from first.

    That is a format whose rows can be read in any order, if there is one; else the first registered.
    """
    known = [FORMATS[name] for name in FORMATS if name in names]
    return sorted(
        (one_format for one_format in known if one_format.complete),
        key=lambda one_format: not one_format.seekable,
    )


def files_of(spec: ReleaseSpec) -> set[str]:
    """Return the names of the files of tables in a release of this spec, in the formats that are known."""
    known = (FORMATS[name] for name in spec.publication.formats if name in FORMATS)
    return {name for one_format in known for name in one_format.files(spec)}


def kind_of(name: str) -> FileKind | None:
    """Return the kind of a file at the top of a release folder; None where no format writes such."""
    kinds = [kind for one_format in _sound() for kind in one_format.kinds if name.endswith(kind.ending)]
    return max(kinds, key=lambda kind: len(kind.ending), default=None)


def reserved_names() -> set[str]:
    """Return the names that no table may have, because a format gives them to a file of the release."""
    return {kind.stem for one_format in _sound() for kind in one_format.kinds if kind.stem is not None}
