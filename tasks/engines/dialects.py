"""The SQL of an expression for an engine that keeps the records, with one meaning in every dialect.

Expressions of Ibis are written without any dialect. Six things would still differ from engine to engine, and
are settled here: where the records and the code lists are, how a digest is called, where a pattern ends, how
text is compared, and how many of no records there are.

- The records are a query of our own (:data:`RECORDS`), and code lists stand in the statement: nothing is
  written into the database, and no table of anybody's is taken for one of ours.
- In Java ``$`` also matches before a line's end that ends the text; here it means the very end everywhere.
- For Spark Ibis writes the number of records with some property as a sum, which is null where there are
  no records at all; here it is 0 everywhere.
- PostgreSQL orders and compares text by the collation of its database, unless another is named. Columns are
  read as ``"C"``, which is by bytes, and so is here all text that does not come of columns: digests, numbers
  written as text, code lists.
"""

# ruff: noqa: N802 - the names are those of Ibis
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tabularium.validations.derivation import DATE
from tabularium.validations.domains.encoding import NUMBER, USUAL, WHOLE
from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    import ibis
    import ibis.expr.datatypes as dt
    import sqlglot as sg
    import sqlglot.expressions as sge
else:
    ibis = Later("ibis")
    dt = Later("ibis.expr.datatypes")
    sg = Later("sqlglot")
    sge = Later("sqlglot.expressions")

Dialect = Literal["postgres", "pyspark"]
RECORDS = "tabularium_records"
"""The name under which expressions speak of the records of the source."""


# PostgreSQL says quickly whether a text is of a pattern, and slowly which part of it is of a group. Of a
# usual number less is asked: what is not so short is read by the other patterns, as the same number.
_QUICK = {
    (WHOLE, 1): (WHOLE, "split_part(btrim(text, ' '), '.', 1)"),
    (USUAL, 1): (r"^ *[+-]?[0-9]{1,18}(\.[0-9]{0,18})? *$", "btrim(text, ' ')"),
    (NUMBER, 1): (NUMBER, "btrim(text, ' ')"),
    **{(DATE, n): (DATE, f"split_part(left(ltrim(text, ' '), 10), '-', {n})") for n in (1, 2, 3)},
}


def records_table(types: dict[str, str]) -> Any:
    """Return the Ibis table of the records: name of a column -> its type."""
    return ibis.table(types, name=RECORDS)


def sql_of(expression: Any, dialect: Dialect, records: str) -> str:
    """Return the SQL of an expression over :func:`records_table`.

    ``records``: the query, in the dialect, that gives the records.
    """
    compiler = (_postgres() if dialect == "postgres" else _pyspark())(records)
    query = compiler.to_sqlglot(expression)
    if dialect == "postgres":
        # PostgreSQL would write the expressions of an inner query into the outer one as often as they are
        # named there, and read every text by pattern as often; not so where rows are to be passed over.
        inner = (
            subquery.this
            for subquery in query.find_all(sge.Subquery)
            if isinstance(subquery.this, sge.Select)
        )
        for select in (query, *inner):
            select.offset(0, copy=False)
    return str(query.sql(dialect=compiler.dialect))


def _with_records(base: Any) -> Any:
    """Return a compiler of Ibis with the records and code lists inside the statement."""

    class WithRecords(base):  # type: ignore[misc]
        SIMPLE_OPS: ClassVar[dict[Any, str]] = {}  # else those of the base would replace what is written here
        UNSUPPORTED_OPS: ClassVar[tuple[Any, ...]] = ()

        def __init__(self, records: str) -> None:
            super().__init__()
            self.records = sg.parse_one(records, dialect=self.dialect)

        def visit_UnboundTable(self, op: Any, *, name: str, schema: Any, namespace: Any) -> Any:
            return self.records.copy()

        def visit_InMemoryTable(self, op: Any, *, name: str, schema: Any, data: Any) -> Any:
            """Write a code list or a public look-up as values."""
            columns = list(schema.names)
            rows = zip(*data.to_pyarrow(schema).to_pydict().values(), strict=True)
            values = sge.values([tuple(map(sge.convert, row)) for row in rows], alias=name, columns=columns)
            made = []
            for column, kind in schema.items():
                value = self.cast(sg.column(column, quoted=True), kind)
                made.append((self.by_bytes(value) if kind.is_string() else value).as_(column, quoted=True))
            return sg.select(*made).from_(values)

        def by_bytes(self, text: Any) -> Any:
            """Return text in a form that is compared by its bytes."""
            return text

    return WithRecords


@cache
def _postgres() -> Any:
    """Return the compiler for PostgreSQL."""
    from ibis.backends.sql.compilers.postgres import PostgresCompiler

    class Postgres(_with_records(PostgresCompiler)):  # type: ignore[misc]
        """The PostgreSQL dialect with our meaning of expressions."""

        def by_bytes(self, text: Any) -> Any:
            return sge.Collate(this=sge.paren(text), expression=sg.to_identifier("C", quoted=True))

        def visit_HexDigest(self, op: Any, *, arg: Any, how: str) -> Any:
            octets = self.f.anon.convert_to(arg, sge.convert("UTF8"))
            return self.by_bytes(self.f.anon.encode(self.f.anon[how](octets), sge.convert("hex")))

        def visit_Floor(self, op: Any, *, arg: Any) -> Any:
            return self.f.floor(arg)  # not cast to a whole number, which large ones would not survive

        def visit_RegexExtract(self, op: Any, *, arg: Any, pattern: Any, index: Any) -> Any:
            text, group = str(pattern.this), int(index.this)
            quick = _QUICK.get((text, group))
            if quick is not None:
                part = sg.parse_one(quick[1].format(text="text"), dialect=self.dialect)
                part = part.transform(lambda node: arg.copy() if node == sge.column("text") else node)
                return self.if_(arg.rlike(sge.convert(quick[0])), part, sge.null())
            # Positions of an array are counted from 0 here, and written from 1.
            return sge.paren(self.f.regexp_match(arg, pattern), copy=False)[group - 1]

        def visit_Arbitrary(self, op: Any, *, arg: Any, where: Any) -> Any:
            return sge.paren(self.f.array_agg(arg), copy=False)[0]

        def visit_Cast(self, op: Any, *, arg: Any, to: Any) -> Any:
            if op.arg.dtype.is_boolean() and to.is_integer():
                arg = self.cast(arg, dt.int32)  # the only one that a truth value can be cast to
            made = super().visit_Cast(op, arg=arg, to=to)
            return self.by_bytes(made) if to.is_string() else made

    return Postgres


@cache
def _pyspark() -> Any:
    """Return the compiler for Spark, which needs PySpark."""
    _ = ibis.pyspark  # registers the options that its compiler reads
    from ibis.backends.sql.compilers.pyspark import PySparkCompiler

    class PySpark(_with_records(PySparkCompiler)):  # type: ignore[misc]
        """The Spark dialect with our meaning of expressions; it compares text by bytes."""

        def visit_RegexExtract(self, op: Any, *, arg: Any, pattern: Any, index: Any) -> Any:
            return super().visit_RegexExtract(op, arg=arg, pattern=_to_the_end(pattern), index=index)

        def visit_RegexSearch(self, op: Any, *, arg: Any, pattern: Any) -> Any:
            return arg.rlike(_to_the_end(pattern))

        def visit_CountStar(self, op: Any, *, arg: Any, where: Any) -> Any:
            if where is None:
                return super().visit_CountStar(op, arg=arg, where=where)
            return self.f.count_if(where)

    return PySpark


def _to_the_end(pattern: Any) -> Any:
    if isinstance(pattern, sge.Literal) and str(pattern.this).endswith("$"):
        return sge.convert(f"{str(pattern.this)[:-1]}\\z")
    return pattern
