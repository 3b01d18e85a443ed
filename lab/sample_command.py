"""``tabularium sample``: synthetic microdata of any size, with code lists and a release spec that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from tabularium.flows.cli.terminal import err, one_line_errors, out
from tabularium.lab.sample import write_sample
from tabularium.lab.sample.sample_specs import KINDS
from tabularium.mechanisms.errors import InputError

_EXAMPLES = """\
Example:  tabularium sample --rows 100000 --out people.parquet

Example:  tabularium sample --kind labour --rows 50000 --out labour-force.parquet"""


def sample(
    rows: Annotated[int, typer.Option(help="Number of records.")],
    out_file: Annotated[Path, typer.Option("--out", help="File to write: .parquet, .csv or .csv.gz.")],
    kind: Annotated[
        str,
        typer.Option(
            help="census (a small one), households (a census in two files), labour (a survey with weights), "
            "health (visits) or hospital (stays with dates)."
        ),
    ] = "census",
    seed: Annotated[int, typer.Option(help="The same seed gives the same people.")] = 1,
    meshblocks: Annotated[int | None, typer.Option(help="Number of smallest areas.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
) -> None:
    """Write synthetic microdata with code lists and a release spec that fits. No real person is in it."""
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
        for path in (files.data, *files.beside.values()):
            out.print(f"data  {path}", soft_wrap=True, markup=False)
        for name, path in files.code_lists.items():
            out.print(f"codes {path} ({name})", soft_wrap=True, markup=False)
        out.print(f"spec  {files.spec}", soft_wrap=True, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(sample)
