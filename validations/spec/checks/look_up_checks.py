"""Look-ups: each is public and fixed, or of the privacy unit, and nothing else is joined to a record.

A row that belongs to nobody in particular but came out of private data, such as one of a shared household,
would change the records of other units when it changes. So a look-up of rows that bear no unit is taken only
when it is declared public.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path as FilePath

from tabularium.validations.spec.checks.source_checks import check_files
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.kinds import RECORD
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.rules import UniqueRule
from tabularium.validations.spec.parts.source_part import LookUp, located, public_name, taken_from
from tabularium.validations.spec.problems import Path, choose, nearest, quoted


def check_look_ups(draft: Draft, folder: FilePath) -> None:
    """Check what every look-up is and how it is joined; take the digests of the public ones.

    Public files are read, relative to ``folder``. No data is opened.
    """
    for name, look in draft.lookups.items():
        if look is None:
            continue
        path: Path = ("lookups", name)
        if look.path is None:
            draft.add(path, "there is no path", "write path: with the file of the look-up")
        else:
            check_files(draft, path, look)
        _check_kind(draft, path, look)
        if look.public is not None:
            _check_public(draft, path, look, folder)
        _check_order(draft, path, look)
    _check_names(draft)


def look_up_notes(spec: ReleaseSpec) -> Iterator[str]:
    """Yield what is allowed but may not be intended, and what is found where."""
    unit = spec.privacy.unit
    for name, look in spec.lookups.items():
        if look.unit is not None:
            yield f"look-up {name}: a {unit.called} finds its own rows alone, none where a key has several"
        elif look.looked_up == unit.column:
            yield (
                f"look-up {name} has a key for each {unit.called}, and nothing in it is protected: if it "
                f"tells of them, write unit: {look.key} instead of public and key"
            )


def _check_kind(draft: Draft, path: Path, look: LookUp) -> None:
    """Check that it is either public or of the unit, and has what it is joined by."""
    unit = None if draft.privacy is None else draft.privacy.unit
    if look.public is not None and look.unit is not None:
        draft.add((*path, "unit"), "is public too", "keep public, or the column of the privacy unit")
    elif look.public is None and look.unit is None:
        own = unit is not None and unit.column is not None and look.looked_up == unit.column
        what = (
            "is neither public nor of the privacy unit, so that its rows could change the records of others"
        )
        hint = (
            f"write unit: {look.key} instead of key"
            if own
            else "write public: and why nobody's data are in it, or unit: with its column of the unit's ids"
        )
        draft.add(path, what, hint)
    elif look.unit is not None and unit is not None and unit.column is None:
        what = "each record is a privacy unit, and no look-up can carry it"
        hint = "name the column that tells units apart, privacy.unit: {column: person_id}; or write public:"
        draft.add((*path, "unit"), what if unit.entity == RECORD else f"{what}: it has no column", hint)
    if look.public is not None and look.key is None:
        draft.add(path, "`key` is missing", "name the column in which values are looked up")
    if look.source_column is not None and look.key is None:
        draft.add(
            (*path, "from"), "there is no key", "write key: with the column of the look-up, or remove it"
        )


def _check_public(draft: Draft, path: Path, look: LookUp, folder: FilePath) -> None:
    """Take the digest of a public look-up: its content is a part of the spec, as that of a code list."""
    period = draft.document.data.get("period")
    if look.path is None or "://" in look.path or not isinstance(period, str):
        return
    file = FilePath(located(look.path, period, folder))
    private = {"the source": draft.source} | {
        f"look-up {name}, of the unit": each
        for name, each in draft.lookups.items()
        if each is not None and each.unit is not None and each is not look
    }
    for name, each in private.items():
        if each is None or each.path is None:
            continue
        if _same_file(file, FilePath(located(each.path, period, folder))):
            what = f"is the file of {name}, which is not public"
            draft.add((*path, "public"), what, "remove the look-up, or name the file of a public list")
            return
    digest = _digest(file)
    if digest is not None:
        draft.public_files[public_name(str(path[-1]))] = digest
        return
    what = f"there is no file {quoted(look.path)}"
    hint = "check the path, which is relative to the spec file; a public look-up is one file"
    draft.add((*path, "path"), what, hint)


def _same_file(one: FilePath, other: FilePath) -> bool:
    """Whether two paths are one file, also by a link."""
    try:
        return one == other or one.samefile(other)
    except (OSError, ValueError):
        return False


def _digest(file: FilePath) -> str | None:
    try:
        if file.is_file():
            with file.open("rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest()
    except (OSError, ValueError):
        pass
    return None


def _check_order(draft: Draft, path: Path, look: LookUp) -> None:
    """Check that what is looked up stands in the source, or in a look-up further up."""
    above = list(draft.lookups)[: list(draft.lookups).index(str(path[-1]))]
    place, _ = taken_from(look.looked_up or "", draft.lookups)
    if place and place not in above:
        field = "from" if look.source_column is not None else "key"
        draft.add((*path, field), f"{quoted(place)} does not stand above it", f"write {quoted(place)} first")


def _check_names(draft: Draft) -> None:
    """Check every name of a column of the source: its look-up is there, and each look-up is used."""
    used = set()
    for path, name in _named(draft):
        place, _ = taken_from(name, draft.lookups)
        used.add(place)
        prefix, dot, _ = name.partition(".")
        if not place and dot and nearest(prefix, draft.lookups) is not None:
            what = f"there is no look-up {quoted(prefix)}"
            draft.add(path, what, choose(prefix, draft.lookups, "look-ups"))
    for name in draft.lookups:
        if name not in used and not draft.document.problems:  # else what uses it may not have been read
            what, hint = "no column is taken from it", f"write for instance from: {name}.COLUMN, or remove it"
            draft.add(("lookups", name), what, hint)
    unit = None if draft.privacy is None else draft.privacy.unit.column
    if unit is not None and taken_from(unit, draft.lookups)[0]:
        what, hint = "stands in a look-up", "name a column of the source: whose a record is stands with it"
        draft.add(("privacy", "unit"), what, hint)


def _named(draft: Draft) -> Iterator[tuple[Path, str]]:
    """Yield every name of a column of the source, with its place in the spec."""
    for name, column in draft.columns.items():
        if column is not None and column.cases is None:
            own = column.source_column is None
            yield (("columns", name) if own else ("columns", name, "from")), column.source_column or name
    for place, table in draft.tables:
        for name, measure in table.measures.items():
            path: Path = ("tables", place, "measures", name)
            if measure.test is None:
                yield (*path, measure.kind), measure.of
            if measure.weight is not None:
                yield (*path, "weight", "column"), measure.weight.column
    for place, histogram in draft.histograms:
        yield ("histograms", place, "of"), histogram.of
    for place, rule in draft.rules:
        if isinstance(rule, UniqueRule):
            yield from ((("rules", place, "columns", at), name) for at, name in enumerate(rule.columns))
    for name, look in draft.lookups.items():
        if look is not None and look.looked_up is not None:
            field = "from" if look.source_column is not None else "key"
            yield ("lookups", name, field), look.looked_up
