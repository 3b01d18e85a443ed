"""Differences between two specs, with cost and margins, or between two releases of a product."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._shown import Shown
from tabularium._spec import Spec
from tabularium._spec import load as load_spec
from tabularium._table import LEVEL, Table, Tables
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.report.wording import several

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table as ArrowTable

Field = tuple[str, Any, Any]
_NUMBERS = ("count", "margin")
_ONLY_IN = {"after": "the previous period has no such cell", "before": "this period has no such cell"}
_BLANK = "one of the two is left blank"
_NO_MARGIN = "one of the two has no margin"
#: Sections of a certificate that say how a release was made; the others are specific to this release.
_HOW = ("privacy", "spec", "postprocessing", "confidence", "measurements", "software", "code")
_OF_ONE_RELEASE = ("digest", "period", "mechanisms", "packages", "bias", "words", "reading")


class SpecDiff(Shown):
    """What differs between two specs. Made by :func:`diff`."""

    def __init__(self, before: Spec, after: Spec) -> None:
        self.before, self.after = before, after

    @cached_property
    def fields(self) -> DataFrame:
        """The fields that differ: ``field``, ``before``, ``after``; None where a spec does not have it."""
        one, other = (
            spec._loaded.spec.model_dump(mode="json", by_alias=True) for spec in (self.before, self.after)
        )
        return _as_rows(differing(one, other))

    @cached_property
    def margins(self) -> DataFrame:
        """What it does to margins: a row for each measured level of a table or measure.

        ``table``, ``level``, ``before`` and ``after``: the margin of a measured cell at each spec's
        confidence, before levels are made to agree; None where there is no such level.
        """
        import pandas as pd

        one, other = (_margins(spec) for spec in (self.before, self.after))
        rows = [(*key, one.get(key), other.get(key)) for key in dict.fromkeys([*one, *other])]
        return pd.DataFrame(rows, columns=["table", "level", "before", "after"])

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "budget": {"before": str(self.before.budget), "after": str(self.after.budget)},
            "fields": _records(self.fields),
            "margins": _records(self.margins),
        }

    def __bool__(self) -> bool:
        return not self.fields.empty

    def _headline(self) -> str:
        symbols = [spec._loaded.spec.privacy.symbol for spec in (self.before, self.after)]
        cost = f"{symbols[0]} = {self.before.budget}"
        if (symbols[0], self.before.budget) != (symbols[1], self.after.budget):
            cost += f", then {symbols[1]} = {self.after.budget}"
        number = len(self.fields)
        differ = f"{several(number, 'field')} differ{'s' if number == 1 else ''}"
        return f"specs of {self.after.product}: {differ}; {cost}"

    def _rows(self) -> DataFrame:
        return self.fields


class Changes(Tables):
    """What changed from one release to another of the same product. Made by :func:`diff`.

    A mapping of the tables that can be compared, and of their measures as ``TABLE.MEASURE``: of the count of
    each cell, or its sum, mean, rate or quantile, ``before``, ``after``, ``difference``, the ``margin`` of
    the difference, and whether it goes ``beyond`` it. A margin stands where the noise of both is independent
    and of a known distribution. A cell that is ``only_in`` one release, or was left blank in one, has no
    difference.
    """

    def __init__(self, before: Release, after: Release) -> None:
        self.before, self.after = before, after

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why tables are not compared, or have no margins of differences: by their names."""
        return {name: why for name, (_, why) in self._compared.items() if why is not None}

    @cached_property
    def _compared(self) -> dict[str, tuple[bool, str | None]]:
        from tabularium.tasks.report.since_last_period import comparable

        one, other = self.before._released, self.after._released
        names = dict.fromkeys([*self.before._numbers, *self.after._numbers])
        return {name: comparable(other, one, *_parts(name)) for name in names}

    @cached_property
    def _tables(self) -> dict[str, Table]:
        of = f"{self.after.product}, {self.before.period} to {self.after.period}"
        return {
            name: Table(
                *(name, of, self.after[_parts(name)[0]].dimensions, self.after.confidence),
                partial(self._read, name),
            )
            for name, (can_be, _) in self._compared.items()
            if can_be
        }

    def _read(self, name: str) -> ArrowTable:
        import numpy as np
        import pyarrow as pa

        from tabularium.tasks.report.since_last_period import margin_of_difference

        table, measure = _parts(name)
        one, other = (release._read(table).to_pandas() for release in (self.before, self.after))
        keys = [column for column in other.columns if column == LEVEL or _is_key(column, self.after[table])]
        keys = [key for key in keys if key in one.columns]
        names = _NUMBERS if measure is None else (measure, f"{measure}_margin")
        wanted = dict(zip(names, _NUMBERS, strict=True))
        one, other = (
            frame[[*keys, *wanted]].rename(columns=wanted).astype(dict.fromkeys(keys, "str"))
            for frame in (one, other)
        )
        one, other = (frame.assign(place=range(len(frame))) for frame in (one, other))
        both = other.merge(one, how="outer", on=keys, suffixes=("", "_before"), indicator=True)
        both = both.sort_values(["place", "place_before"])  # as in the files; what went comes last
        known = name not in self.reasons
        frame = both[keys].assign(before=both["count_before"], after=both["count"])
        frame["difference"] = both["count"] - both["count_before"]
        margin = margin_of_difference(both["margin"], both["margin_before"]) if known else np.nan
        frame["margin"] = np.where(np.isfinite(margin), margin, np.nan)
        frame["beyond"] = (frame["difference"].abs() > frame["margin"]).where(
            frame["difference"].notna() & frame["margin"].notna()
        )
        frame["only_in"] = both["_merge"].map({"left_only": "after", "right_only": "before"}).astype(object)
        return pa.Table.from_pandas(frame, preserve_index=False)

    def _by_cell(self, name: str, *, level: str | Sequence[str] | None) -> DataFrame:
        """Return codes, ``count`` afterwards, its ``change``, ``margin``, and the ``reason`` why not.

        For a table that cannot be compared, only the reason.
        """
        import pandas as pd

        if name not in self:
            return pd.DataFrame({"reason": [self._missing(name)]})
        rows = self[name].to_pandas(level=level, labels=False)
        blank = rows["before"].isna() | rows["after"].isna()
        reasons = rows["only_in"].map(_ONLY_IN).astype(object)
        reasons = reasons.mask(reasons.isna() & blank, _BLANK)
        reasons = reasons.mask(reasons.isna() & rows["margin"].isna(), self.reasons.get(name, _NO_MARGIN))
        renamed = rows.drop(columns=["before", "beyond", "only_in"]).rename(
            columns={"after": "count", "difference": "change"}
        )
        return renamed.assign(reason=reasons)

    @cached_property
    def summary(self) -> DataFrame:
        """Table by table and measure by measure, level by level.

        ``table``, ``level``, ``cells`` in both, how many were ``compared`` with a margin, how many of these
        go ``beyond`` it, and how many would ``by_chance`` if nothing had changed; ``came`` and ``went`` are
        the cells that only one release has.
        """
        import pandas as pd

        rows = []
        for name, table in self._tables.items():
            for level in table.levels or (None,):
                frame = table.to_pandas(level=level)
                compared = int(frame["margin"].notna().sum())
                rows.append(
                    (
                        *(name, level, int(frame["difference"].notna().sum()), compared),
                        int(frame["beyond"].fillna(value=False).astype(bool).sum()),
                        compared * (1 - self.after.confidence),
                        *(int((frame["only_in"] == which).sum()) for which in ("after", "before")),
                    )
                )
        columns = ["table", "level", "cells", "compared", "beyond", "by_chance", "came", "went"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def fields(self) -> DataFrame:
        """How they were made otherwise: ``field`` of the certificate, ``before``, ``after``."""
        one, other = (
            {name: release.certificate.document()[name] for name in _HOW}
            for release in (self.before, self.after)
        )
        return _as_rows(
            difference
            for difference in differing(one, other)
            if not set(difference[0].split(".")) & set(_OF_ONE_RELEASE)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "before": {"release": self.before.id, "period": self.before.period},
            "after": {"release": self.after.id, "period": self.after.period},
            "tables": _records(self.summary),
            "reasons": self.reasons,
            "fields": _records(self.fields),
        }

    def __bool__(self) -> bool:
        return self.before.id != self.after.id

    def _missing(self, name: str) -> str:
        return self.reasons.get(name, "neither release has such a table")

    def _headline(self) -> str:
        of = f"{self.after.product}: {self.before.period} ({self.before.id[:8]}…)"
        lines = [f"{name}: {why}" for name, why in self.reasons.items()]
        return "\n".join([f"{of} to {self.after.period} ({self.after.id[:8]}…)", *lines])

    def _rows(self) -> DataFrame:
        return self.summary

    __repr__ = Shown.__repr__


def diff(
    before: Spec | Release | str | os.PathLike[str], after: Spec | Release | str | os.PathLike[str]
) -> SpecDiff | Changes:
    """Say what differs between two specs, or between two releases of a product.

    Parameters
    ----------
    before, after
        Two specs, or their YAML files; or two releases, or their folders.

    Returns
    -------
    SpecDiff or Changes
        False of equal specs, and of one release given twice.

    Raises
    ------
    InputError
        One is a spec and one a release, they are of two products, or one is a rehearsal.

    Examples
    --------
    >>> diff("people.yaml", "people-planned.yaml")                               # doctest: +SKIP
    >>> diff("releases/people/2025/current", "releases/people/2026/current")     # doctest: +SKIP
    """
    one, other = _opened(before), _opened(after)
    if isinstance(one, Spec) and isinstance(other, Spec):
        return SpecDiff(one, other)
    if isinstance(one, Spec) or isinstance(other, Spec):
        raise InputError(
            "a spec and a release cannot be compared",
            where=str(after),
            hint="give two specs, or the folders of two releases",
        )
    if one.product != other.product:
        raise InputError(
            f"is a release of {other.product}, and the other one is of {one.product}",
            where=str(other.folder),
            hint="give two releases of one product",
        )
    return Changes(one, other)


def _opened(given: Spec | Release | str | os.PathLike[str]) -> Spec | Release:
    if isinstance(given, str | os.PathLike):
        given = open_release(given) if Path(given).is_dir() else load_spec(given)
    if isinstance(given, Release):
        given._published(str(given.folder))
    return given


def _parts(name: str) -> tuple[str, str | None]:
    """Return the table, and the measure of it if one is named."""
    table, _, measure = name.partition(".")
    return table, measure or None


def _is_key(column: str, table: Table) -> bool:
    return column in table.dimensions or column.removesuffix("_label") in table.dimensions


def _margins(spec: Spec) -> dict[tuple[str, str], float]:
    from tabularium.validations.release_spec.summary import summarise

    margins: dict[tuple[str, str], float] = {}
    for table in summarise(spec._loaded).as_json()["tables"]:
        for level in table["levels"]:
            margins.setdefault((table["name"], level["level"]), level["margin"])
    return margins


def differing(one: Any, other: Any, path: str = "") -> Iterator[Field]:
    """Yield the fields that differ: path, and both values. Items of lists go by their names, if they have."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            inner = f"{path}.{key}" if path else str(key)
            yield from differing(one.get(key), other.get(key), inner)
    elif (ours := _named(one)) is not None and (theirs := _named(other)) is not None:
        yield from differing(ours, theirs, path)
    elif one != other:
        yield path, one, other


def _named(items: Any) -> dict[str, Any] | None:
    """Return the items of a list by their names, if each has one."""
    if not isinstance(items, list):
        return None
    for key in ("name", "step"):
        if items and all(isinstance(item, dict) and key in item for item in items):
            return {str(item[key]): item for item in items}
    return None


def _as_rows(fields: Iterator[Field]) -> DataFrame:
    import pandas as pd

    return pd.DataFrame(list(fields), columns=["field", "before", "after"], dtype=object)


def _records(frame: DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
