"""The expressions that code and judge records compile for engines that are not here, and say what they mean."""

from __future__ import annotations

from pathlib import Path

import ibis
import pyarrow as pa
import pytest
import sqlglot as sg

from tabularium.tasks.engines.dialects import records_table, sql_of
from tabularium.validations.derivation import coded_columns
from tabularium.validations.domains.encoding import kept
from tests.tasks.engines import one_spec


@pytest.mark.audit
@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "trino"])
def test_coded_records_compile_for_warehouses(dialect: str, tmp_path: Path) -> None:
    one_spec.write(tmp_path, one_spec.ROWS)
    loaded = one_spec.spec(tmp_path, one_spec.ON_DUCKDB)
    raw = {field.name: f"raw{place}" for place, field in enumerate(one_spec.SCHEMA)}
    kinds = {"string": "string", "int64": "int64", "double": "float64"}
    types = {raw[field.name]: kinds[str(field.type)] for field in one_spec.SCHEMA}
    table = ibis.table({**types, "look0_0": "string"}, name="people")
    raw["zones.zone"] = "look0_0"
    rows = coded_columns(table, raw, loaded.spec.columns, loaded.domains)
    number = rows.filter(kept(rows, loaded.domains, raw["person"])).count()
    sql = str(ibis.to_sql(number, dialect=dialect))
    assert sg.parse_one(sql, dialect=dialect).find(sg.exp.Case)


def test_a_statement_of_postgresql_says_what_is_meant() -> None:
    table = records_table({"raw0": "string", "raw1": "boolean", "raw2": "float64"})
    codes = ibis.memtable(pa.table({"key": ["it's", "é"], "code": [0, 1]}))
    rows = table.left_join(codes, table.raw0 == codes.key).mutate(
        ticket=table.raw0.hexdigest("sha256"), one=table.raw1.cast("int8"), down=table.raw2.floor()
    )
    sql = sql_of(rows, "postgres", 'SELECT "a b" AS raw0, true AS raw1, 1.5 AS raw2 FROM "s"."t"')
    for part in (
        "ENCODE(SHA256(CONVERT_TO(",
        "VALUES ('it''s', 0), ('é', 1)",
        "AS INT) AS SMALLINT)",
        'FROM "s"."t"',
    ):
        assert part in sql, part
    assert 'AS BIGINT) AS "down"' not in sql
