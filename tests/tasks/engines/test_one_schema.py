"""Whether files have what a spec needs, and alike: judged by their types alone, without Spark."""

from __future__ import annotations

from itertools import product

import pytest

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.engines.spark import folder_columns, require_apart, require_one_schema

FILES = [(f"hdfs://names/people/region=n/part-{number}.parquet", 1, 1) for number in range(3)]


@pytest.mark.parametrize("kinds", list(product((None, "bigint", "string"), repeat=3)))
def test_all_small_cases(kinds: tuple[str | None, ...]) -> None:
    """Of three files each lacks the column or has it in one of two types."""
    schemas = [{"other": kind or "date", **({"age": kind} if kind else {})} for kind in kinds]
    wrong = next((place for place, kind in enumerate(kinds) if kind is None or kind != kinds[0]), None)
    if wrong is None:
        assert require_one_schema(zip(FILES, schemas, strict=True), ["age"]) == {"age": kinds[0]}
        return
    with pytest.raises(InputRefused) as caught:
        require_one_schema(zip(FILES, schemas, strict=True), ["age"])
    told = str(caught.value)
    assert told.startswith(f"part-{wrong}.parquet: ") and "\n" not in told
    assert "'age'" in told and "other'" not in told and "region=n" not in told
    if kinds[wrong] is not None:
        assert f"{kinds[wrong]} here, and {kinds[0]} in another file" in told


@pytest.mark.parametrize(
    ("address", "own", "refused"),
    [
        ("file:/d/sex=f/p.parquet", ["age"], False),
        ("file:/d/sex=f/p.parquet", ["sex", "age"], True),
        ("file:/d/SEX=f/p.parquet", ["sex"], False),
        ("file:/d/s%65x=f/year=1/p.parquet", ["sex"], True),
        ("file:/d/year=1/p.parquet", ["year", "sex"], False),
        ("file:/d/sex=f.parquet", ["sex"], False),
    ],
)
def test_a_column_stands_in_the_file_or_in_the_names_of_its_folders(
    address: str, own: list[str], refused: bool
) -> None:
    if not refused:
        require_apart(folder_columns(address), own, ["sex"], "p.parquet")
        return
    with pytest.raises(InputRefused, match=r"p.parquet: column 'sex' stands in the file and in the names"):
        require_apart(folder_columns(address), own, ["sex"], "p.parquet")
