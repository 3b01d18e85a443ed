"""``tabularium improve``: a published table in, a better one beside it, and one line for whatever is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.lab.improve import summary
from tabularium.mechanisms.histograms.noise_first import improve
from tabularium.mechanisms.noise.synthetic import generator

TRUE = np.repeat([40, 300, 8], 40)
NOISY = TRUE + np.rint(generator(1).laplace(0, 10, TRUE.size)).astype(np.int64)


def tabularium(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["improve", *map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = ['"region",age,count', *(f'"north, ""{i // 40}""",0{i},{value}' for i, value in enumerate(NOISY))]
    path = tmp_path / "ages.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def column(path: Path, name: str) -> list[float]:
    import csv

    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def test_a_csv_file_gets_one_more_column(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "better.csv"
    done = tabularium(table, "--value", "count", "--scale", "10", "--out", out)
    assert done.exit_code == 0, done.output
    assert column(out, "improved") == improve(NOISY, 10).values.tolist()
    assert np.abs(np.array(column(out, "improved")) - TRUE).mean() < np.abs(NOISY - TRUE).mean() / 2
    first = out.read_text(encoding="utf-8").splitlines()[:2]
    assert first[0] == "region,age,count,improved"
    assert first[1].startswith(f'"north, ""0""",00,{NOISY[0]},')  # texts stay texts, zeros in front included
    assert "3 bins" in done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ages.csv", "better.csv"]


def test_json_says_what_was_done(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "better.csv.gz"
    done = tabularium(
        table, "--value=count", "--scale=20/2", "--out", out, "--centre=median", "--column=x", "--json"
    )
    said = json.loads(done.stdout)
    expected = improve(NOISY, 10, centre="median", risk_runs=4)
    assert said == {
        "file": str(out),
        "cells": 120,
        "noise_variance": expected.noise.variance,
        **expected.diagnostics,
    }
    assert column(out, "x") == expected.values.tolist()


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint16(), pa.float32(), pa.decimal128(12, 2)], ids=str)
def test_parquet_files(kind: pa.DataType, tmp_path: Path) -> None:
    source, out = tmp_path / "t.parquet", tmp_path / "u.parquet"
    values = np.maximum(NOISY, 0)
    whole = pa.types.is_integer(kind)
    cells = pa.array(values.tolist()).cast(kind if not pa.types.is_decimal(kind) else pa.int64())
    if pa.types.is_decimal(kind):
        cells = cells.cast(pa.decimal128(21, 0)).cast(kind)
    pq.write_table(pa.table({"n": cells, "label": ["a", "b"] * 60}), source)
    done = tabularium(source, "--value", "n", "--scale", "10", "--out", out, "--noise", "gaussian")
    assert done.exit_code == 0, done.output
    found = pq.read_table(out)
    assert found.column_names == ["n", "label", "improved"]
    assert found["n"].type == kind
    expected = improve(values if whole else values.astype(np.float64), 10, noise="gaussian")
    assert found["improved"].to_pylist() == expected.values.tolist()


def test_options_reach_the_merging(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "u.parquet"
    words = ["--bins=7", "--no-range-rule", "--penalty=paper", "--risk-runs=0", "--json"]
    done = tabularium(table, "--value=count", "--scale=10", "--out", out, *words)
    said = json.loads(done.stdout)
    assert said["bins"] == 7
    assert "risk" not in said
    assert (
        pq.read_table(out)["improved"].to_pylist()
        == improve(NOISY, 10, bins=7, range_rule=False).values.tolist()
    )


def test_another_delimiter_and_decimals(tmp_path: Path) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "u.csv"
    source.write_text("\ufeffa;n\n" + "\n".join(f"x; {value / 4} " for value in NOISY), encoding="utf-8")
    done = tabularium(source, "--value", "n", "--scale", "2.5", "--out", out, "--delimiter", ";")
    assert done.exit_code == 0, done.output
    assert out.read_text(encoding="utf-8").startswith("a;n;improved\nx; ")
    last = [float(line.split(";")[2]) for line in out.read_text(encoding="utf-8").splitlines()[1:]]
    assert last == improve(NOISY / 4, 2.5).values.tolist()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--value", "counts"], "the table has no such column"),
        (["--value", "region"], "the column holds something that is not a number"),
        (["--scale", "ten"], "--scale: this is not a number; write 10, 0.5 or 10/3"),
        (["--scale", "0"], "scale: the noise scale must be a positive number"),
        (["--scale", "1/0"], "--scale: this is not a number"),
        (["--bins", "121"], "bins: there cannot be more bins than cells; write 120 at most, or leave it out"),
        (["--centre", "mode"], "centre: there is no such choice; use mean or median"),
        (["--noise", "none"], "noise: there is no such noise; write laplace or gaussian"),
        (["--risk-runs", "1"], "risk_runs: one simulation does not say"),
        (["--column", "age"], "the table has a column of this name"),
        (["--delimiter", ";;"], "--delimiter: the delimiter must be one character"),
        (["--out", "u.txt"], "cannot tell the format from this ending"),
        (["--out", "no/such/u.csv"], "there is no such folder"),
        (["--out", "ages.csv"], "this file exists; name another, or remove it"),
    ],
    ids=" ".join,
)
def test_one_line_for_what_is_wrong(
    words: list[str], error: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = table.read_bytes()
    given = {"--value": "count", "--scale": "10", "--out": "u.csv", words[0]: words[1]}
    done = tabularium("ages.csv", *(word for pair in given.items() for word in pair))
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert error in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ages.csv"]
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "the file is empty"),
        (b"a,count\n1,2\n1,2,3\n", "the lines do not all have the same columns"),
        (b"a,count\n1,\n2,5\n", "not a number"),
        (b"a,count\n1,inf\n2,5\n", "not a finite number"),
        (b"count,count\n1,2\n", "two columns have the same name"),
        (b"a,count\n", "there are no cells"),
        (b"PAR1 no table PAR1", "is a Parquet file"),
        (b"\x1f\x8b\x08 cut off", "damaged or cut off"),
    ],
    ids=lambda value: value[:18].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_files_that_are_no_tables(content: bytes, error: str, tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_bytes(content)
    done = tabularium(source, "--value", "count", "--scale", "10", "--out", tmp_path / "u.csv")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert error in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_parquet_files_that_are_no_tables(tmp_path: Path) -> None:
    source, out = tmp_path / "t.parquet", tmp_path / "u.csv"
    source.write_bytes(b"not at all")
    assert "this is no Parquet file" in tabularium(source, "--value=n", "--scale=1", "--out", out).stderr
    pq.write_table(pa.table({"n": [1, None]}), source)
    assert "the column has gaps" in tabularium(source, "--value=n", "--scale=1", "--out", out).stderr
    pq.write_table(pa.table({"n": [True, False]}), source)
    assert "not a number" in tabularium(source, "--value=n", "--scale=1", "--out", out).stderr
    missing = tabularium(tmp_path / "v.csv", "--value=n", "--scale=1", "--out", out)
    assert "there is no such file" in missing.stderr


def test_the_summary_says_how_sure_it_is() -> None:
    done = {"file": "u.csv", "cells": 10, "bins": 2, "cells_as_measured": 0, "noise_variance": 200.0}
    sure = summary({**done, "risk": 50.0, "risk_standard_error": 4.0})
    assert "about 50 ± 4; before 200" in sure
    unsure = summary({**done, "risk": -3.0, "risk_standard_error": 4.0})
    assert "at most about 5; before 200" in unsure
    lost = summary({**done, "risk": 100.0, "risk_standard_error": 60.0})
    assert "too few cells to tell; before 200" in lost, "a bound above what was there before says nothing"
    assert "squared" not in summary(done)


def test_help_has_an_example() -> None:
    shown = tabularium("--help")
    assert shown.exit_code == 0
    assert "Example:" in shown.output
