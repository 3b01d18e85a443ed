"""``tabularium run``: a release, here or as a flow run; ``diagnose``: why its data were refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tabularium.flows.cli.terminal import (
    AsJson,
    HomePath,
    MeasurementsOf,
    Revises,
    SameInput,
    SpecPath,
    TerminalReporter,
    one_line_errors,
    out,
    print_json,
    table,
)
from tabularium.ledger.refusals import NotApproved
from tabularium.mechanisms.errors import InputError, RunRefused, TabulariumError
from tabularium.tasks.runtime.diagnoses import Diagnosis, find, names
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from tabularium.tasks.runtime.run import Request
    from tabularium.validations.release_spec.load import Loaded

_MOST_ROWS = 1_000_000  # of a table that is read to show a few of them


def run(
    spec: SpecPath,
    source: Annotated[str | None, typer.Option(help="Read this file, glob, folder or URL instead.")] = None,
    period: Annotated[str | None, typer.Option(help="Publish for this period instead.")] = None,
    revises: Revises = None,
    measurements_of: MeasurementsOf = None,
    same_input: SameInput = False,
    home: HomePath = None,
    prefect: Annotated[
        bool, typer.Option("--prefect", help="As a Prefect flow, on a server of its own if none is set.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish what SPEC asks for. Running it again publishes and pays nothing more.

    Where a Prefect API is configured (PREFECT_API_URL, or a profile) or `tabularium up` runs for the home, it
    is a flow run there; otherwise it runs in this process, without a server.
    """
    with one_line_errors():
        from tabularium.tasks.runtime.run import Request

        reporter = TerminalReporter(quiet=as_json)
        asked = Request.of(
            *(spec, source, period, home, revises), same_input=same_input, measurements_of=measurements_of
        )
        outcome = run_release(asked, reporter, prefect=prefect)
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
            _show(Path(outcome["folder"]), home)


def _show(folder: Path, home: Path | None) -> None:
    """Print what a person wants next: the first rows, the report, and what is left."""
    import tabularium
    from tabularium.ledger.records import SYMBOLS

    with suppress(TabulariumError):  # it is published, whether it can be looked at from here or not
        release = tabularium.open(folder, verify=False)
        first = next(iter(release))
        if release.certificate.tables[first].rows <= _MOST_ROWS:
            text = f"\n{release[first].beginning()}\n"
            out.print(text, soft_wrap=True, markup=False, highlight=False)
        out.print(f"Look at: {folder / 'report.html'}", soft_wrap=True, markup=False, highlight=False)
        with tabularium.open_ledger(home) as books:
            account = books.account(release.certificate.dataset)
        symbol = SYMBOLS[account.terms.definition]
        left = f"Left on account {account.name}: {symbol} = {account.left} of {account.cap}"
        out.print(left, soft_wrap=True, markup=False, highlight=False)


def run_release(request: Request, reporter: TerminalReporter, *, prefect: bool = False) -> dict[str, Any]:
    """Publish what is requested, with its stages reported to ``reporter``.

    ``prefect``: run as a flow even where no Prefect API is configured: on a server that ends with the run.

    Returns
    -------
    dict
        ``status``, ``release_id``, ``folder``, ``certificate`` and ``engine``: ``process``, ``prefect`` with
        the URL of its API, or ``none`` if the release was published already.
    """
    from tabularium.tasks.arrival.drop_outcomes import recorded
    from tabularium.tasks.runtime.home import Home
    from tabularium.tasks.runtime.run import load

    loaded = load(request)
    try:
        with recorded(Home(Path(request.home)), request.source):
            return _run(request, loaded, reporter, prefect=prefect)
    except NotApproved as error:
        from tabularium.flows.operations.waiting import for_officers

        refusal = for_officers(error, request)
    raise refusal


def _run(request: Request, loaded: Loaded, reporter: TerminalReporter, *, prefect: bool) -> dict[str, Any]:
    from tabularium.flows.operations.prefect_api import configured_url, url_of_home
    from tabularium.flows.release_chain import find_published, release_tables
    from tabularium.tasks.runtime.home import Home
    from tabularium.tasks.runtime.progress import reporting_to

    if not prefect and configured_url() is None and url_of_home(Home(Path(request.home))) is None:
        with reporting_to(reporter):
            outcome = release_tables(request, loaded)
        return {**asdict(outcome), "engine": "process" if outcome.status == "published" else "none"}
    found = find_published(request, loaded)
    if found is not None:
        return {**asdict(found), "engine": "none"}
    with reporting_to(reporter):
        return _through_prefect(request, loaded)


def _through_prefect(request: Request, loaded: Loaded) -> dict[str, Any]:
    from tabularium.flows.operations.prefect_api import api_for_runs
    from tabularium.tasks.runtime.diagnoses import for_local_terminal
    from tabularium.tasks.runtime.home import Home
    from tabularium.tasks.runtime.run import handing_over

    home = Home(Path(request.home))
    with api_for_runs(home) as url, handing_over(request, loaded) as returned:
        from tabularium.flows.release import release

        try:
            release(**asdict(request))
        except RunRefused as error:
            refusal = error
        else:
            if not returned:
                raise InputError(
                    "Prefect's server ended the run before it began", where=url, hint="see its state there"
                )
            return {**returned[0], "engine": f"prefect {url}"}
    # This is the operator's own terminal; Prefect only learns that the run was refused.
    raise for_local_terminal(home, refusal)


_MOST = 10


def diagnose(
    run: Annotated[
        str | None, typer.Argument(help="Name in the last line of the run; default: the last run.")
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Show why the data of a run were refused: rules, columns, kinds of fault, lines; no value, no count.

    No budget covers this: show it only to people who may see the data.

    With --json: the run, or a list of all that are kept, oldest first:

    - run, spec, product, period: what was refused
    - stage, message: the stage that refused, and the line that was shown
    - findings: the reasons, each with rule, column, kind, file and line
    """
    with one_line_errors():
        installation = Home.found(home)
        kept = names(installation)
        if as_json:
            print_json(
                asdict(find(installation, run))
                if run
                else [asdict(find(installation, name)) for name in kept]
            )
            return
        if not (run or kept):
            out.print(f"No data were refused in {installation.path}", soft_wrap=True, markup=False)
            out.print(
                "Noisy rules and invariants that stopped a run are not kept here: their line was on the "
                "terminal and in the flow run.",
                soft_wrap=True,
            )
            return
        _show_diagnosis(find(installation, run or kept[-1]))
        if not run and kept[:-1]:
            earlier = ", ".join(reversed(kept[-1 - _MOST : -1]))
            out.print(Text(f"Earlier: {earlier}"))


def _show_diagnosis(diagnosis: Diagnosis) -> None:
    out.print(
        Text.assemble((diagnosis.run, "bold"), f"  {diagnosis.product}, {diagnosis.period}"), soft_wrap=True
    )
    out.print(Text(f"  {diagnosis.message}"))
    columns = [
        ("rule", [finding.rule for finding in diagnosis.findings]),
        ("column", [finding.column for finding in diagnosis.findings]),
        ("kind", [finding.kind for finding in diagnosis.findings]),
        ("file", [finding.file for finding in diagnosis.findings]),
        (">line", ["" if finding.line is None else str(finding.line) for finding in diagnosis.findings]),
    ]
    used = [(name, values) for name, values in columns if any(values)]
    if used:
        rows = table(*(name for name, _ in used))
        for row in zip(*(values for _, values in used), strict=True):
            rows.add_row(*map(Text, row))
        out.print(rows)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example:  tabularium run census.yaml --source census-2026.parquet --period 2026")(run)
    app.command(epilog="Example:  tabularium diagnose 20261122T143000-1f3a9c2e")(diagnose)
