"""``tabularium sample``: synthetic microdata of any size, with a code list and a release spec that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from flows.cli.terminal import err, one_line_errors, out
from flows.sample import write_sample
from mechanisms.errors import InputError


def sample(
    rows: Annotated[int, typer.Option(help="Number of records.")],
    out_file: Annotated[Path, typer.Option("--out", help="File to write: .parquet, .csv or .csv.gz.")],
    kind: Annotated[str, typer.Option(help="census or health.")] = "census",
    seed: Annotated[int, typer.Option(help="The same seed gives the same people.")] = 1,
    meshblocks: Annotated[int | None, typer.Option(help="Number of smallest areas.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
) -> None:
    """Write synthetic microdata with a code list and a release spec that fits. No real person is in it."""
    with one_line_errors():
        if kind not in {"census", "health"}:
            raise InputError("unknown kind of sample", where="--kind", mend="write census or health")
        with Progress(console=err, transient=True) as bar:
            job = bar.add_task("writing", total=rows)
            files = write_sample(
                "health" if kind == "health" else "census",
                rows,
                out_file,
                seed=seed,
                meshblocks=meshblocks,
                overwrite=overwrite,
                progress=lambda done: bar.update(job, completed=done),
            )
        out.print(f"data  {files.data}", soft_wrap=True, markup=False)
        for name, path in files.code_lists.items():
            out.print(f"codes {path} ({name})", soft_wrap=True, markup=False)
        out.print(f"spec  {files.spec}", soft_wrap=True, markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium sample --rows 100000 --out people.parquet")(sample)
