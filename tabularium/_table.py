"""A published table, as whatever library people read tables with takes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from tabularium._shown import Shown
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame
    from polars import DataFrame as PolarsFrame
    from pyarrow import Table as ArrowTable

    from tabularium._answer import Answer

AnswerSource = Literal["measurements", "tables"]
LEVEL = "level"
_LABEL = "_label"


class Table(Shown):
    """The numbers of a table as they were published: a row for each cell, each number with its margin.

    What takes Arrow's C stream (Polars, DuckDB, pandas) takes a table as it is.

    Attributes
    ----------
    name, of
        Its name in the spec, and the product and period.
    dimensions
        The columns that hold codes, in the order of the file; each with labels has them in ``NAME_label``.
    levels
        Where it has a hierarchy, the levels that were published, the whole first: nation, region, district.
        Each level counts everybody once.
    confidence
        The share of all numbers of the kind that lie within their margin; None in a series in which it
        changed, whose rows say it themselves.
    """

    def __init__(
        self,
        name: str,
        of: str,
        dimensions: Sequence[str],
        confidence: float | None,
        read: Callable[[], ArrowTable],
        estimate: Callable[[], ArrowTable] | None = None,
        total: Callable[..., Answer] | None = None,
        ordered: Sequence[str] = (),
    ) -> None:
        self.name, self.of, self.confidence, self._read = name, of, confidence, read
        self.dimensions, self._estimate, self._total = tuple(dimensions), estimate, total
        self._ordered = tuple(ordered)

    @cached_property
    def _arrow(self) -> ArrowTable:
        return self._read()

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """See the attributes of the class."""
        table = self._arrow
        return tuple(table[LEVEL].unique().to_pylist()) if LEVEL in table.column_names else ()

    def to_arrow(self, *, level: str | Sequence[str] | None = None, labels: bool = True) -> ArrowTable:
        """Return the rows of a level.

        Parameters
        ----------
        level
            One of ``levels``, or several, which get a column ``level``; by default the last one. Rows of
            several levels count the same people again and must not be added up.
        labels
            Whether columns of labels are wanted in addition to codes.

        Raises
        ------
        InputError
            There is no such level.
        """
        table = self._arrow
        if not self.levels and level is not None:
            raise InputError("this table has no levels", where=f"table {self.name}", hint="leave level= away")
        if self.levels:
            asked = (level or self.levels[-1],) if isinstance(level, str | None) else tuple(level)
            if unknown := [name for name in asked if name not in self.levels]:
                raise InputError(
                    f"there is no level {unknown[0]!r}",
                    where=f"table {self.name}",
                    hint=f"known are {', '.join(self.levels)}",
                )
            table = _of_levels(table, asked)
            if len(asked) == 1:
                table = table.drop_columns([LEVEL])
        if not labels:
            names = [f"{dimension}{_LABEL}" for dimension in self.dimensions]
            table = table.drop_columns([name for name in names if name in table.column_names])
        return table

    def to_pandas(self, *, level: str | Sequence[str] | None = None, labels: bool = True) -> DataFrame:
        """Return the rows of a level, as :meth:`to_arrow`; codes and labels are categorical.

        Bins of numbers are in their order: ``frame[frame["age"] >= "20-24"]``.
        """
        frame: DataFrame = self.to_arrow(level=level, labels=labels).to_pandas()
        for name in self._ordered:
            frame[name] = frame[name].cat.as_ordered()
        return frame

    def to_polars(self, *, level: str | Sequence[str] | None = None, labels: bool = True) -> PolarsFrame:
        """Return the rows of a level, as :meth:`to_arrow`, where Polars is installed."""
        try:
            import polars
        except ImportError:
            raise InputError(
                "Polars is not installed", where="to_polars", hint="install it: pip install polars"
            ) from None
        frame = polars.from_arrow(self.to_arrow(level=level, labels=labels))
        assert isinstance(frame, polars.DataFrame)  # noqa: S101 - of a table
        return frame

    def unbiased(self) -> Table:
        """Return estimates of counts and sums that are right on average: to add up, and to compute with.

        They agree with each other as the published counts do, and were neither kept from falling below zero
        nor made whole. Each ``estimate`` of a count comes with its ``variance``, of the noise only; where
        many tables were made to agree it is an estimate itself. A sum or distinct count has its estimate
        under its name, and ``NAME_variance``; means, rates and quantiles are no sums of what was measured,
        and have none. It costs no budget: they are made of the noisy measurements in the release.

        Raises
        ------
        InputError
            The measurements are withheld, contradict an invariant beyond chance, or are of a mechanism that
            keeps no noise of a known variance; or this is a histogram or a series.
        """
        if self._estimate is None:
            raise InputError(
                "has no measurements of its own", where=f"table {self.name}", hint="open one release"
            )
        estimate = self._estimate()
        of = f"{self.of}, unbiased"
        return Table(self.name, of, self.dimensions, None, lambda: estimate, ordered=self._ordered)

    def total(
        self,
        where: Mapping[str, str | int | Iterable[str | int]] | None = None,
        /,
        *,
        confidence: float | None = None,
        source: AnswerSource | None = None,
        **codes: str | int | Iterable[str | int],
    ) -> Answer:
        """Add up the cells that have some codes, and say how far off the sum may be. It costs no budget.

        It is the count that :meth:`Release.query` asks this table for, whose text the answer has. Margins of
        cells must not be added up.

        Parameters
        ----------
        where
            Columns whose names are no words of Python, or ``confidence`` or ``source``, with their codes.
        confidence
            Confidence of the interval, between 0 and 1; by default, as in the release.
        source
            ``"measurements"``: the best sum. ``"tables"``: the sum of the published cells, with an interval
            of its own. By default what is better known.
        **codes
            A code or several for each column; for a hierarchy, codes of any level, each counted once.
            All of a column that is left out.

        Returns
        -------
        Answer
            ``value``, ``low``, ``high``, and the sum of the published cells as ``published``.

        Raises
        ------
        InputError
            The table does not cross such a column, or the column has no such code; or this is a histogram or
            no table of a release.

        Examples
        --------
        >>> release["age_by_sex"].total(sex="F", age=["20-24", "25-29"])          # doctest: +SKIP
        """
        if self._total is None:
            raise InputError(
                "has no measurements of its own", where=f"table {self.name}", hint="open one release"
            )
        return self._total({**(where or {}), **codes}, confidence=confidence, source=source)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Hand the rows of the last level to a library that speaks Arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.to_arrow())

    def _headline(self) -> str:
        which = f", level {self.levels[-1]} of {', '.join(self.levels)}" if len(self.levels) > 1 else ""
        margins = "" if self.confidence is None else f"; margins at {100 * self.confidence:g} %"
        return f"table {self.name} of {self.of}: {len(self):,} rows{which}{margins}"

    def _rows(self) -> DataFrame:
        return self.to_pandas()


def _of_levels(table: ArrowTable, levels: Sequence[str]) -> ArrowTable:
    """Return the rows of some levels; texts that are in none of them are not in the dictionaries either."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = table.filter(pc.is_in(table[LEVEL].cast(pa.string()), pa.array(levels)))
    for index, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            texts = rows.column(index).cast(pa.string()).dictionary_encode()
            rows = rows.set_column(index, pa.field(field.name, texts.type, metadata=field.metadata), texts)
    return rows


class Tables(Mapping[str, Table], Shown):
    """A mapping of tables by name."""

    @property
    @abstractmethod
    def _tables(self) -> dict[str, Table]: ...

    @abstractmethod
    def _missing(self, name: str) -> str:
        """Return why there is no such table."""

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            raise KeyError(f"{name}: {self._missing(name)}")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
