"""The command line: ``tabularium …``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli import query as query_cli
from flows.cli.ledger import group as ledger_cli
from flows.cli.options import AsJson, HomePath
from flows.cli.terminal import TerminalReporter, one_line_errors, out, print_json
from mechanisms.errors import InputError
from tasks.runtime.progress import stopping

app = typer.Typer(
    name="tabularium",
    help="Official statistics under differential privacy, with the books kept.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks print local variables, which hold data
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ledger_cli.app, name="ledger")
query_cli.register(app)

SpecPath = Annotated[Path, typer.Argument(help="The release spec (YAML).", metavar="SPEC")]


@app.command(epilog="Example:  tabularium run census.yaml --source census-2026.parquet --period 2026")
def run(
    spec: SpecPath,
    source: Annotated[str | None, typer.Option(help="Read this file, glob, folder or URL instead.")] = None,
    period: Annotated[str | None, typer.Option(help="Publish for this period instead.")] = None,
    home: HomePath = None,
    prefect: Annotated[
        bool, typer.Option("--prefect", help="Run as a Prefect flow, on a server of its own if none is set.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish what SPEC asks for. Asked for twice, it is published and paid once.

    Where a Prefect API is configured (PREFECT_API_URL, or a profile) the release is a flow run there;
    otherwise it runs in this process, with no server.
    """
    from flows.cli.run import run_release

    with one_line_errors():
        reporter = TerminalReporter(quiet=as_json)
        outcome = run_release(spec, source, period, home, reporter, prefect=prefect)
        if as_json:
            print_json({**outcome, "stages": reporter.stages, "notes": reporter.notes})
        elif outcome["status"] == "already published":
            out.print(
                f"This release is already published, and was paid for once: {outcome['folder']}",
                soft_wrap=True,
                markup=False,
            )
        else:
            out.print(f"Published: {outcome['folder']}", soft_wrap=True, markup=False)


@app.command(epilog="Example:  tabularium check census.yaml")
def check(spec: SpecPath, as_json: AsJson = False) -> None:
    """Say everything that is wrong with SPEC, or what it will publish and cost. Opens no data."""
    from flows.cli.check import report_spec

    if not report_spec(spec, as_json=as_json):
        raise typer.Exit(1)


@app.command(epilog="Example:  tabularium sample --rows 100000 --out people.parquet")
def sample(
    rows: Annotated[int, typer.Option(help="Number of records.")],
    out_file: Annotated[Path, typer.Option("--out", help="File to write: .parquet, .csv or .csv.gz.")],
    kind: Annotated[str, typer.Option(help="census or health.")] = "census",
    seed: Annotated[int, typer.Option(help="The same seed gives the same people.")] = 1,
    meshblocks: Annotated[int | None, typer.Option(help="Number of smallest areas.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
) -> None:
    """Write synthetic microdata with a code list and a release spec that fits. No real person is in it."""
    from rich.progress import Progress

    from flows.cli.terminal import err
    from flows.sample import write_sample

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


@app.command(epilog="Example:  tabularium improve ages.csv --value count --scale 10 --out ages-improved.csv")
def improve(
    table: Annotated[Path, typer.Argument(help="A published table: CSV or Parquet.", metavar="TABLE")],
    value: Annotated[str, typer.Option(help="Column of the noisy numbers.")],
    scale: Annotated[str, typer.Option(help="Noise scale: sensitivity/ε (Laplace) or σ (Gaussian).")],
    out_file: Annotated[Path, typer.Option("--out", help="New file to write.")],
    noise: Annotated[str, typer.Option(help="laplace or gaussian.")] = "laplace",
    centre: Annotated[str, typer.Option(help="mean or median.")] = "mean",
    bins: Annotated[int | None, typer.Option(help="Number of bins; the best one if absent.")] = None,
    penalty: Annotated[str, typer.Option(help="Price of a bin: selection or paper.")] = "selection",
    range_rule: Annotated[bool, typer.Option(help="Keep the cells of bins that do not gain.")] = True,
    risk_runs: Annotated[int, typer.Option(help="Simulations for the error estimate; 0: none.")] = 4,
    column: Annotated[str, typer.Option(help="Name of the new column.")] = "improved",
    delimiter: Annotated[str, typer.Option(help="Of CSV files.")] = ",",
    as_json: AsJson = False,
) -> None:
    """Merge neighbouring rows of a published noisy TABLE where that lessens its error. Costs no budget."""
    from flows.cli.improve import improve_file, summary

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


@app.command(
    epilog="Example:  tabularium compare --out tried    "
    "tabularium compare --suite acs-2012 --out acs    "
    "tabularium compare --mechanism denoise --mechanism noise_first:penalty=paper --data location --out two"
)
def compare(
    out_folder: Annotated[Path, typer.Option("--out", help="New folder for results.csv and index.html.")],
    suite: Annotated[
        str | None,
        typer.Option(help="acs-2012, xu-2013, xiao-2010, chen-2024, suresh-2019, general or speed."),
    ] = None,
    mechanism: Annotated[
        list[str] | None, typer.Option(help="name or name:parameter=value,…; may be given again.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Made-up set, release folder (#table), or file of public counts.")
    ] = None,
    epsilon: Annotated[list[str] | None, typer.Option(help="0.1 or 1/10; may be given again.")] = None,
    measure: Annotated[list[str] | None, typer.Option(help="Error measure; may be given again.")] = None,
    because: Annotated[
        str | None, typer.Option("--public", help="Where the counts of a file are published.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of each; default: what the suite says.")] = None,
    seed: Annotated[int, typer.Option(help="Of the first run.")] = 1,
    processes: Annotated[int | None, typer.Option(help="At once; default: one per core.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms on public data: a table (CSV) and a page with plots. Costs no budget."""
    from rich.progress import Progress

    from flows.cli.terminal import err
    from flows.comparison.compare import compare as run_comparison
    from flows.comparison.compare import suite_of, summary

    with one_line_errors():
        chosen = suite_of(suite, mechanism or [], data or [], epsilon or [], measure or [], because)
        with Progress(console=err, transient=True) as bar:
            job = bar.add_task("comparing", total=None)
            results = run_comparison(
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
            out.print(summary(results), highlight=False, soft_wrap=True)
            out.print(f"page  {out_folder / 'index.html'}", soft_wrap=True, markup=False)
            out.print(f"table {out_folder / 'results.csv'}", soft_wrap=True, markup=False)


@app.command(epilog="Example:  tabularium demo --folder /tmp/tabularium-demo")
def demo(
    folder: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("demo"),
    rows: Annotated[int, typer.Option(help="Number of synthetic persons.")] = 50_000,
) -> None:
    """Make a sample, open an account, publish a release and show it. Takes about half a minute."""
    from flows.cli.demo import run_demo

    with one_line_errors():
        run_demo(folder, rows)


def main(*arguments: Any) -> None:
    """Entry point of the console command."""
    stopping.listen()
    app(*arguments)


if __name__ == "__main__":
    main()
