"""``tabularium sample`` and ``tabularium compare``: synthetic microdata, and mechanisms on public data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from tabularium.flows.cli.terminal import AsJson, err, one_line_errors, out, print_json
from tabularium.mechanisms.errors import InputError

_SAMPLES = """\
Example:  tabularium sample --rows 100000 --out people.parquet

Example:  tabularium sample --kind labour --rows 50000 --out labour-force.parquet"""
_COMPARISONS = (
    "Example:  tabularium compare --out tried    "
    "tabularium compare --suite acs-2012 --out acs    "
    "tabularium compare --mechanism denoise --mechanism noise_first:penalty=paper --data location --out two"
)


def sample(
    rows: Annotated[int, typer.Option(help="Number of records.")],
    out_file: Annotated[Path, typer.Option("--out", help="File to write: .parquet, .csv or .csv.gz.")],
    kind: Annotated[
        str,
        typer.Option(
            help="census (small), households (two files), labour (weighted survey), health (visits) or "
            "hospital (stays with dates)."
        ),
    ] = "census",
    seed: Annotated[int, typer.Option(help="The same seed gives the same people.")] = 1,
    meshblocks: Annotated[int | None, typer.Option(help="Number of smallest areas.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
) -> None:
    """Write synthetic microdata with code lists and a matching release spec. No real person is in it."""
    from tabularium.lab.sample import write_sample
    from tabularium.lab.sample.samples import KINDS

    with one_line_errors():
        if kind not in KINDS:
            hint = f"write one of {', '.join(KINDS)}"
            raise InputError("unknown kind of sample", where="--kind", hint=hint)
        with Progress(console=err, transient=True) as bar:
            job = bar.add_task("writing", total=rows)
            files = write_sample(
                kind,
                rows,
                out_file,
                seed=seed,
                meshblocks=meshblocks,
                overwrite=overwrite,
                progress=lambda done: bar.update(job, completed=done),
            )
        for path in (files.data, *files.others.values()):
            out.print(f"data  {path}", soft_wrap=True, markup=False)
        for name, path in files.code_lists.items():
            out.print(f"codes {path} ({name})", soft_wrap=True, markup=False)
        out.print(f"spec  {files.spec}", soft_wrap=True, markup=False)


def compare(
    out_folder: Annotated[Path, typer.Option("--out", help="New folder for results.csv and index.html.")],
    suite: Annotated[
        str | None,
        typer.Option(help="acs-2012, xu-2013, xiao-2010, chen-2024, suresh-2019, general, ranges or speed."),
    ] = None,
    mechanism: Annotated[
        list[str] | None, typer.Option(help="name or name:parameter=value,…; repeatable.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Made-up set, release folder (#table), or file of public counts.")
    ] = None,
    epsilon: Annotated[list[str] | None, typer.Option(help="0.1 or 1/10; repeatable.")] = None,
    measure: Annotated[list[str] | None, typer.Option(help="Error measure; repeatable.")] = None,
    because: Annotated[
        str | None, typer.Option("--public", help="Where the counts of a file are published.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of each; default: the suite's.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first run.")] = 1,
    processes: Annotated[int | None, typer.Option(help="Runs at once; default: one per core.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms on public data: a table (CSV) and a page with plots. Costs no budget."""
    from tabularium.lab.comparison import comparison

    with one_line_errors():
        chosen = comparison.suite_of(
            suite, mechanism or [], data or [], epsilon or [], measure or [], because
        )
        with Progress(console=err, transient=True) as bar:
            job = bar.add_task("comparing", total=None)
            results = comparison.compare(
                chosen,
                out_folder,
                runs=runs,
                seed=seed,
                processes=processes,
                done=lambda done, jobs: bar.update(job, completed=done, total=jobs),
            )
        if as_json:
            print_json({"folder": str(out_folder), "results": results.to_dict("records")})
        else:
            out.print(comparison.summary(results), highlight=False, soft_wrap=True)
            out.print(f"page  {out_folder / 'index.html'}", soft_wrap=True, markup=False)
            out.print(f"table {out_folder / 'results.csv'}", soft_wrap=True, markup=False)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_SAMPLES)(sample)
    app.command(epilog=_COMPARISONS)(compare)
