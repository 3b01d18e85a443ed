"""``tabularium improve``: merge neighbouring cells of a table that was published with noise on every cell.

It reads what has been published and nothing else, so it needs no account and costs nothing.
"""

from __future__ import annotations

import csv
import gzip
import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

from tabularium.flows.cli.terminal import AsJson, one_line_errors, out, print_json
from tabularium.lab.sample.blocks import split_ending
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.histograms.noise_first import Improved, improve
from tabularium.tasks.ingest.csv_text import read_header
from tabularium.tasks.written_aside import written_aside
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.source import Files

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 100_000
_EXAMPLE = "Example:  tabularium improve ages.csv --value count --scale 10 --out ages-improved.csv"


def improve_table(
    table: Annotated[Path, typer.Argument(help="A published table: CSV or Parquet.", metavar="TABLE")],
    value: Annotated[str, typer.Option(help="Column of the noisy numbers.")],
    scale: Annotated[str, typer.Option(help="Noise scale: sensitivity/ε (Laplace) or σ (Gaussian).")],
    out_file: Annotated[Path, typer.Option("--out", help="New file to write.")],
    noise: Annotated[str, typer.Option(help="laplace or gaussian.")] = "laplace",
    centre: Annotated[str, typer.Option(help="mean or median.")] = "mean",
    bins: Annotated[int | None, typer.Option(help="Number of bins; default: the best.")] = None,
    penalty: Annotated[str, typer.Option(help="Price of a bin: selection or paper.")] = "selection",
    range_rule: Annotated[bool, typer.Option(help="Keep the cells of bins that do not gain.")] = True,
    risk_runs: Annotated[int, typer.Option(help="Simulations for the error estimate; 0: none.")] = 4,
    column: Annotated[str, typer.Option(help="Name of the new column.")] = "improved",
    delimiter: Annotated[str, typer.Option(help="Of CSV files.")] = ",",
    as_json: AsJson = False,
) -> None:
    """Merge neighbouring rows of a published noisy TABLE where that reduces its error. Costs no budget."""
    with one_line_errors():
        done = improve_file(
            table,
            value,
            scale,
            out_file,
            column=column,
            delimiter=delimiter,
            noise=noise,
            centre=centre,
            bins=bins,
            penalty=penalty,
            range_rule=range_rule,
            risk_runs=risk_runs,
        )
        if as_json:
            print_json(done)
        else:
            out.print(summary(done), soft_wrap=True, highlight=False)


def improve_file(
    source: Path, value: str, scale: str, out: Path, *, column: str, delimiter: str, **options: Any
) -> dict[str, Any]:
    """Write ``source`` with one more column, the improved values; return what was done.

    Parameters
    ----------
    source
        CSV (may be gzipped) or Parquet file; its rows are the cells, neighbours one below the other.
    value
        The column that holds the noisy numbers.
    scale
        Scale of the noise, as text: ``10``, ``0.5`` or ``10/3``.
    out
        A file that does not exist yet; its ending says the format.
    delimiter
        Of CSV files, read and written.
    options
        Parameters of ``tabularium.mechanisms.histograms.noise_first.improve``.

    Raises
    ------
    InputError
        A file, column or number is not what it should be.
    MechanismError
        A parameter is not one that ``improve`` takes.
    """
    _, ending = split_ending(out)
    if os.path.lexists(out):
        raise InputError("this file exists", where=str(out), hint="name another, or remove it")
    if len(delimiter) != 1:
        raise InputError("the delimiter must be one character", where="--delimiter")
    with written_aside([out], overwrite=False) as (aside,):
        unreadable = InputError("the file cannot be read", where=str(source), hint="check its rights")
        table = redacted(lambda: _read(source, delimiter), unreadable)
        _refuse_finished(source, value, table.column_names)
        improved = improve(_numbers(table, value, source.name), _scale(scale), **options)
        if column in table.column_names:
            raise InputError(
                "the table has a column of this name", where=f"--column {column}", hint="choose another name"
            )
        _write(table, column, improved, aside, ending, delimiter)
    return {
        "file": str(out),
        "cells": improved.values.size,
        "noise_variance": improved.noise.variance,
        **improved.diagnostics,
    }


def summary(done: dict[str, Any]) -> str:
    """Say in a few lines what ``improve_file`` returned."""
    lines = [
        f"Improved: {done['file']}",
        f"{done['cells']} cells in {done['bins']} bins; {done['cells_as_measured']} cells stay as they were",
    ]
    if "risk" in done:
        risk, error, before = done["risk"], done["risk_standard_error"], done["noise_variance"]
        most = risk + 2 * error
        if risk > 2 * error:
            amount = f" about {risk:.3g} ± {error:.2g}"
        else:
            amount = f" at most about {most:.3g}" if most < before else ": too few cells to tell"
        lines.append(f"mean squared error per cell{amount}; before {before:.3g}")
    return "\n".join(lines)


def _refuse_finished(source: Path, value: str, columns: list[str]) -> None:
    """Refuse a table that a release publishes: its numbers were made to agree, and their noise is another.

    Raises
    ------
    InputError
        If the table lies next to a certificate, or has the columns of such a table.
    """
    if (source.parent / "certificate.json").exists() or (value == "count" and "margin" in columns):
        raise InputError(
            "this table is post-processed already, and its noise is no longer that of its mechanism",
            where=str(source),
            hint="improve the noisy numbers, in measurements/ of the release",
        )


def _scale(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InputError("this is not a number", where="--scale", hint="write 10, 0.5 or 10/3") from None


def _read(source: Path, delimiter: str) -> pa.Table:
    """Return a table; columns of a CSV file stay the texts they are."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not source.is_file():
        raise InputError("there is no such file", where=str(source), hint="check the name")
    if source.name.lower().endswith(".parquet"):
        damaged = InputError("this is no Parquet file", where=source.name, hint="check how it was written")
        return redacted(lambda: pa.parquet.ParquetFile(source).read(), damaged)
    names = read_header(source, Files(delimiter=delimiter))
    if len(set(names)) < len(names):
        raise InputError("two columns have the same name", where=source.name, hint="rename one of them")
    texts = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    uneven = InputError(
        "the lines do not all have the same columns", where=source.name, hint="check --delimiter"
    )
    return redacted(lambda: pa.csv.read_csv(source, parse_options=parse, convert_options=texts), uneven)


def _numbers(table: pa.Table, value: str, name: str) -> NDArray[Any]:
    """Return a column as int64 or float64, shape (rows,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if value not in table.column_names:
        raise InputError(
            "the table has no such column",
            where=f"{name}, --value {value}",
            hint="name the one with the numbers",
        )
    cells = table[value].combine_chunks()
    what = InputError(
        "the column holds something that is not a number",
        where=f"{name}, --value {value}",
        hint="correct the file",
    )
    if cells.null_count:
        raise InputError(
            "the column has gaps", where=f"{name}, --value {value}", hint="fill them or leave them out"
        )
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        trimmed = pc.utf8_trim_whitespace(cells)
        try:
            cells = trimmed.cast(pa.int64())
        except pa.ArrowInvalid:
            cells = redacted(lambda: trimmed.cast(pa.float64()), what)
    elif pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.float64())
    elif not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
        raise what
    return cast("NDArray[Any]", cells.to_numpy(zero_copy_only=False))


def _write(table: pa.Table, column: str, improved: Improved, path: Path, ending: str, delimiter: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    extended = table.append_column(column, pa.array(np.asarray(improved.values)))
    if ending == ".parquet":
        pa.parquet.write_table(extended, path)
        return
    opened = gzip.open if ending == ".csv.gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(extended.column_names)
        for batch in extended.to_batches(max_chunksize=_ROWS_AT_ONCE):
            writer.writerows(zip(*(part.to_pylist() for part in batch.columns), strict=True))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="improve", epilog=_EXAMPLE)(improve_table)
