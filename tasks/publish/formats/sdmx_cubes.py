"""What each table is in SDMX: a dataflow whose dimensions are the columns of the table and the period."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.tasks.publish.quality import FLAGS
from tabularium.validations.domains.sdmx_names import component_ids, measure_columns, measure_id, time_period
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.table_parts import Histogram

#: Flag of a cell -> status of an observation, of SDMX's cross-domain list.
STATUS = dict(zip(FLAGS, ("A", "U", "Q", "V", "N", "A"), strict=True))


@dataclass(frozen=True)
class Cube:
    """One table or histogram.

    Attributes
    ----------
    table
        What is published.
    name
        What names it among the agency's structures: product and table, in capitals.
    agency, version
        Of every structure.
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
        """Column of each measure, of its margins and flags -> id of the attribute that it is."""
        entry = self.table.entry
        names = () if isinstance(entry, Histogram) else entry.measures
        columns = [each for name in names for each in measure_columns(name)]
        return {each: measure_id(each) for each in columns if each in self.table.frame.schema.names}

    @property
    def along(self) -> str | None:
        """The id of the dimension whose levels are published."""
        found = self.table.layout.table.along
        return None if found is None else self.dimensions[found]


def product_id(loaded: Loaded) -> str:
    """Return what the product is called within ids."""
    return loaded.spec.product.upper()


def dimension_ids(spec: ReleaseSpec) -> dict[str, str]:
    """Return the id of each column of a spec, wherever it is a dimension."""
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
