"""What an engine cannot do, and every unsafe way to one, is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import examine, load_spec

SPEC = """\
product: people
dataset: survey
period: "2026"
source: {{{source}}}
{more}privacy: {{unit: {{entity: person, column: person}}, max_contributions: 1, budget: "1"}}
columns:
  sex: {{categories: [f, m]}}
tables:
  - {{name: sexes, dimensions: [sex]}}
"""
PARQUET = "path: people.parquet, engine: spark, master: 'local[2]'"
SAFE = "postgresql://agency@db.example.org/people?sslmode=verify-full"


def written(folder: Path, source: str, more: str = "") -> Path:
    (folder / "spec.yaml").write_text(SPEC.format(source=source, more=more))
    return folder / "spec.yaml"


@pytest.mark.parametrize(
    "source",
    [
        PARQUET,
        "path: 's3a://bucket/people/*.parquet', engine: spark, master: 'spark://one:7077,two:7077'",
        f"url: '{SAFE}', table: public.people, engine: postgresql",
        "url: 'postgresql:///people', table: people, engine: postgresql",
        "url: 'postgresql:///people?host=/run/postgresql&port=5433', table: people, engine: postgresql",
    ],
)
def test_an_engine_that_is_reached_safely_is_taken(source: str, tmp_path: Path) -> None:
    plain = load_spec(written(tmp_path, "path: people.parquet"))
    loaded = load_spec(written(tmp_path, source))
    assert loaded.digest == plain.digest  # where and by what the records are read is no part of a release
    assert loaded.published_spec == plain.published_spec
    where = source.partition(": ")[2].partition(", ")[0].strip("'")
    assert loaded.source_uri.endswith(where)


@pytest.mark.parametrize(
    ("source", "field", "said"),
    [
        ("path: p.parquet, engine: spark", "source.master", "`master` is missing"),
        ("path: p.parquet, engine: spark, master: yarn", "source.master", "is no cluster"),
        ("path: p.parquet, master: 'local[2]'", "source.master", "has no `master`"),
        ("path: p.csv, engine: spark, master: local", "source.path", "spark reads Parquet files"),
        ("path: p.parquet, engine: postgresql", "source.engine", "files are read by duckdb or spark"),
        (
            f"url: '{SAFE}', table: people, engine: spark, master: local",
            "source.engine",
            "read by its database",
        ),
        (
            "url: 'sqlite:///a.db', table: people, engine: postgresql",
            "source.url",
            "is not one of PostgreSQL",
        ),
        *(
            (f"url: 'postgresql://{way}', table: people, engine: postgresql", "source.url", "prove who it is")
            for way in (
                "db.example.org/people",
                "db.example.org/people?sslmode=require",
                "db.example.org/people?sslmode=verify-ca",
                "127.0.0.1/people",
                "/people?host=db.example.org",
                "/people?host=/run/postgresql&hostaddr=192.0.2.1",
                "a/people?sslmode=verify-full&sslmode=disable",
                "/people?host=/run/postgresql,db.example.org",
            )
        ),
        *(
            (f"url: 'postgresql://{way}', table: people, engine: postgresql", "source.url", "says elsewhere")
            for way in ("/people?service=agency", "db/people?sslmode=verify-full&sslkeylogfile=keys")
        ),
    ],
)
def test_what_cannot_be_or_is_not_safe_is_refused(source: str, field: str, said: str, tmp_path: Path) -> None:
    problems = examine(written(tmp_path, source)).problems
    assert any(problem.field == field and said in problem.what for problem in problems), problems


def test_look_ups_of_the_unit_are_refused(tmp_path: Path) -> None:
    more = "lookups:\n  homes: {path: homes.parquet, unit: person}\n"
    problems = examine(written(tmp_path, PARQUET, more)).problems
    assert any("spark joins only public look-ups" in problem.what for problem in problems), problems


def test_the_command_line_names_another_place_of_the_same_engine(tmp_path: Path) -> None:
    other = SAFE.replace("db.", "copy.")
    loaded = load_spec(written(tmp_path, f"url: '{SAFE}', table: people, engine: postgresql"), source=other)
    assert (loaded.spec.source.engine, loaded.source_uri) == ("postgresql", other)
    loaded = load_spec(written(tmp_path, PARQUET), source="hdfs://name/people.parquet")
    assert (loaded.spec.source.engine, loaded.spec.source.master) == ("spark", "local[2]")
    assert loaded.source_uri == "hdfs://name/people.parquet"
