"""Tables as SDMX cubes: a dataflow whose dimensions are the columns of the table and the period.

SDMX's ids allow fewer characters than ours. An id of a component is letters, digits and ``_``, beginning
with a letter. An id of a code is letters, digits, ``_``, ``@``, ``$`` and ``-``: every other character of a
code is written as ``$`` and two hexadecimal digits for each of its bytes in UTF-8, and so is ``$`` itself, so
that no two codes become one and each can be read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from tabularium.tasks.publish.published_tables import FLAGS, PublishedTable
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.tables import Histogram

RESERVED = frozenset(
    {
        *("STRUCTURE", "STRUCTURE_ID", "STRUCTURE_NAME", "ACTION", "SERIES_KEY", "OBS_KEY"),
        *("TIME_PERIOD", "OBS_VALUE", "OBS_STATUS", "MARGIN", "LEVEL", "SIZE"),
    }
)
"""Names that SDMX-CSV or our own attributes take."""

_ESCAPED = re.compile(r"[^A-Za-z0-9_@-]")
_HALF = re.compile(r"([0-9]{4})-H([12])", re.ASCII)
_PERIOD = re.compile(
    r"[0-9]{4}(-(0[1-9]|1[0-2]|A1|[ST][12]|T3|Q[1-4]|M(0[1-9]|1[0-2])|W(0[1-9]|[1-4][0-9]|5[0-3])"
    r"|D(00[1-9]|0[1-9][0-9]|[12][0-9]{2}|3[0-5][0-9]|36[0-6])))?"
)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
#: Flag of a cell -> status of an observation, of SDMX's cross-domain list.
STATUS = dict(zip(FLAGS, ("A", "U", "Q", "V", "N", "A"), strict=True))


@dataclass(frozen=True)
class Cube:
    """One table or histogram.

    Attributes
    ----------
    name
        What names it among the agency's structures: product and table, in capitals.
    dimensions
        Column of the table -> id of its dimension, without the period; of a histogram the size.
    value
        The column with the observations.
    period
        The reference period as SDMX writes it.
    """

    table: PublishedTable
    name: str
    agency: str
    version: str
    dimensions: Mapping[str, str]
    value: str
    period: str

    @property
    def flow(self) -> str:
        """The reference to its dataflow, as the rows have it."""
        return f"{self.agency}:DF_{self.name}({self.version})"

    @property
    def measures(self) -> dict[str, str]:
        """Column of each measure, of its margins and flags -> id of its attribute."""
        entry = self.table.entry
        names = () if isinstance(entry, Histogram) else entry.measures
        columns = [column for name in names for column in measure_columns(name)]
        return {column: measure_id(column) for column in columns if column in self.table.frame.schema.names}

    @property
    def along(self) -> str | None:
        """The id of the dimension whose levels are published."""
        along = self.table.layout.table.along
        return None if along is None else self.dimensions[along]


def product_id(loaded: Loaded) -> str:
    """Return the name of the product within ids."""
    return loaded.spec.product.upper()


def dimension_ids(spec: ReleaseSpec) -> dict[str, str]:
    """Return the id of each column of a spec as a dimension."""
    return component_ids(spec.columns, (name for table in spec.tables for name in table.measures))


def cubes(loaded: Loaded, tables: Mapping[str, PublishedTable]) -> Iterator[tuple[str, Cube]]:
    """Yield every table and histogram by its name.

    A product has no ``_`` in its name and a table no ``-``, so that no two names become one.
    """
    spec = loaded.spec
    ids = dimension_ids(spec)
    period = time_period(spec.period)
    assert period is not None  # noqa: S101 - the spec's own check
    for name, table in tables.items():
        columns = table.layout.table.dimensions
        yield (
            name,
            Cube(
                table,
                f"{product_id(loaded)}_{name.upper()}",
                spec.publication.sdmx.agency,
                spec.publication.sdmx.version,
                {column: ids[column] for column in columns} or {"size": "SIZE"},
                "count" if columns else "number",
                period,
            ),
        )


def component_ids(columns: Iterable[str], measures: Iterable[str] = ()) -> dict[str, str]:
    """Return the unique id of each column's component: its name in capitals, as far as SDMX allows it.

    None is the `measure_id` of a measure, of its margins or flags, which accompany columns in a table.
    """
    ids: dict[str, str] = {}
    taken = RESERVED | {measure_id(column) for name in measures for column in measure_columns(name)}
    for column in columns:
        plain = re.sub("[^A-Z0-9_]", "_", column.upper())
        name = first = plain if "A" <= plain[:1] <= "Z" else f"C_{plain}"
        number = 1
        while name in taken:
            number += 1
            name = f"{first}_{number}"
        taken |= {name}
        ids[column] = name
    return ids


def code_id(code: str) -> str:
    """Return the id of a code; `original_code` takes it back."""
    return _ESCAPED.sub(lambda match: "".join(f"${byte:02X}" for byte in match[0].encode()), code)


def original_code(name: str) -> str:
    """Return the code of an id."""
    return re.sub(
        r"(?:\$[0-9A-F]{2})+", lambda match: bytes.fromhex(match[0].replace("$", "")).decode(), name
    )


def measure_columns(name: str) -> tuple[str, str, str]:
    """Return the columns of a measure, its margins and its flags."""
    return name, f"{name}_margin", f"{name}_quality"


def measure_id(column: str) -> str:
    """Return the id of a column of a measure, of its margins or its flags."""
    return f"MEASURE_{column.upper()}"


def time_period(period: str) -> str | None:
    """Return a period as SDMX writes it, or None where SDMX cannot write it.

    Years, months (``2026-03``), days, and what SDMX calls reporting periods: ``2026-Q1``, ``2026-W09``,
    ``2026-S1``, which we also write ``2026-H1``, and so on.
    """
    half = _HALF.fullmatch(period)
    if half is not None:
        return f"{half[1]}-S{half[2]}"
    if _DAY.fullmatch(period):
        try:
            date.fromisoformat(period)
        except ValueError:
            return None
        return period
    return period if _PERIOD.fullmatch(period) else None
