"""Commands about published releases: ``report|site|series|diff|rebuild|withdraw``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

import tabularium
from tabularium.flows.cli.ledger.shared_options import KeyFile, officer, open_ledger, say_decided
from tabularium.flows.cli.terminal import (
    AsJson,
    HomePath,
    err,
    one_line_errors,
    out,
    print_json,
    say,
    table,
    working,
)
from tabularium.mechanisms.errors import InputError, TabulariumError
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium import Changes, SpecDiff
    from tabularium.ledger import Charge

_REPORT_EXAMPLES = """\
Example:  tabularium report releases/census/2026/ID --out report.html

Example:  tabularium report releases/census/2026/ID --last releases/census/2025/ID --out report.html

Example:  tabularium report releases/census/2026/ID --registry --out registry.yaml"""


def report_release(
    folder: Annotated[Path, typer.Argument(help="Folder of a published release.", metavar="RELEASE")],
    last: Annotated[
        Path | None,
        typer.Option(help="Release of an earlier period, to compare.", metavar="FOLDER"),
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="New file; default: report.html, or registry.yaml.",
            metavar="FILE",
        ),
    ] = None,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="Write an entry for OpenDP's registry of deployments instead."),
    ] = False,
) -> None:
    """Write the report of a published release: one page, for people. Costs no budget.

    Files and certificate are checked; signature and ledger are not, as the page states.
    """
    with one_line_errors():
        before = None if last is None else tabularium.open(last)
        release = tabularium.open(folder)
        out_file = out_file or Path("registry.yaml" if registry else "report.html")
        (release.registry_entry if registry else release.report)(out_file, last=before)
        out.print(f"Written: {out_file}", soft_wrap=True, highlight=False, markup=False)


_SITE_EXAMPLES = """\
Example:  tabularium site releases --out site

Example:  tabularium site releases --out /srv/www/statistics --copy --address https://example.org/statistics/"""


def site(
    releases: Annotated[Path, typer.Argument(help="Folder with PRODUCT/PERIOD/RELEASE.", metavar="RELEASES")],
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder to write; replaces a site that is there.", metavar="DIR")
    ],
    address: Annotated[
        str,
        typer.Option(help="Address of DIR, for full addresses in feeds.", metavar="URL"),
    ] = "",
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Copy the releases into DIR, checked, instead of linking to them.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a web site over all releases: products, periods, search, downloads, feeds, budget over time.

    It reads only certificates and indexes. Releases that cannot be shown are listed with the reason.

    With --json: site (the folder), products, releases, and not_shown (where and why).
    """
    with one_line_errors():
        with working("writing the site"):
            pages = tabularium.site(releases, out_folder, address=address, copy=copy)
        if as_json:
            print_json(pages.as_dict())
            return
        for row in pages.not_shown.itertuples():
            message = escape(f"{row.where}: not shown: {row.why}")
            err.print(f"[yellow]![/yellow] {message}", soft_wrap=True, highlight=False)
        out.print(pages._headline(), soft_wrap=True, highlight=False, markup=False)


_SERIES_EXAMPLES = """\
Example:  tabularium series releases/persons --table age_by_sex --level region --out persons.csv

Example:  tabularium series releases/persons --out persons.duckdb"""


def series(
    folder: Annotated[Path, typer.Argument(help="Folder of a product.", metavar="FOLDER")],
    out_file: Annotated[
        Path, typer.Option("--out", help="File to write: .csv, .parquet or .duckdb.", metavar="FILE")
    ],
    table: Annotated[str | None, typer.Option(help="For .csv and .parquet, if there are several.")] = None,
    level: Annotated[str | None, typer.Option(help="For .csv and .parquet; default: the last one.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    unverified: Annotated[bool, typer.Option("--unverified", help="Do not check the files first.")] = False,
) -> None:
    """Write all current periods of a product as one table with a column `period`. Costs no budget.

    A .duckdb file gets every table at every level, as TABLE__LEVEL. Withdrawn releases are left out; an
    unreadable one is an error.
    """
    with one_line_errors():
        with working("reading releases"):
            result = tabularium.series(folder, verify=not unverified)
            result.write(out_file, table=table, level=level, overwrite=overwrite)
        periods = [release.period for release in result.releases]
        text = f"{len(periods)} periods, {periods[0]} to {periods[-1]}: {out_file}"
        out.print(text, soft_wrap=True, highlight=False, markup=False)


_DIFF_EXAMPLES = """\
Example:  tabularium diff people.yaml people-planned.yaml

Example:  tabularium diff releases/people/2025/current releases/people/2026/current --json"""


def diff(
    before: Annotated[Path, typer.Argument(help="A spec, or the folder of a release.", metavar="A")],
    after: Annotated[Path, typer.Argument(help="Another of the same kind.", metavar="B")],
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 1 if A and B differ."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what differs between A and B. Opens no data and costs no budget.

    For specs: every field, with its effect on cost and margins. For releases of a product: how many cells
    changed by more than the margin of the difference, how many would by chance, and what was done
    differently.
    """
    with one_line_errors():
        with working("comparing"):
            changes = tabularium.diff(before, after)
            document = changes.as_dict()
        if as_json:
            print_json(document)
        elif isinstance(changes, tabularium.Changes):
            _show_changes(changes)
        else:
            _show_specs(changes)
        if exit_code and changes:
            raise typer.Exit(1)


def _show_specs(changes: SpecDiff) -> None:
    say(changes._headline())
    _print(changes.fields, "Fields")
    changed = changes.margins[changes.margins["before"].fillna(-1) != changes.margins["after"].fillna(-1)]
    _print(changed, "Margins of a measured cell that become others")


def _show_changes(changes: Changes) -> None:
    say(changes._headline())
    _print(
        changes.summary,
        "Cells that changed by more than the margin of the difference, and how many would by chance",
    )
    _print(changes.fields, "Made otherwise")


def _print(frame: DataFrame, title: str) -> None:
    if frame.empty:
        return
    numbers = {name for name in frame if frame[name].dtype.kind in "if"}
    grid = table(*(f">{name}" if name in numbers else str(name) for name in frame), title=title)
    for row in frame.itertuples(index=False):
        grid.add_row(*map(_written, row))
    out.print(grid)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:g}"
    return "-" if value is None else str(value)


def rebuild(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="The specs of the products.")],
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Restore lost folders of published releases, byte for byte. Costs no budget, opens no data.

    Covers every period and revision. If the disk is gone, mount it first.

    With --json a list with release_id, product, period, folder, and error (null where it was made).
    """
    with one_line_errors():
        rows = [_made(folder, charge, spec, home) for spec in specs for folder, charge in _lost(spec, home)]
    if as_json:
        print_json(rows)
    for row in rows if not as_json else []:
        say(row["folder"] if row["error"] is None else f"not made: {row['folder']}: {row['error']}")
    if not rows and not as_json:
        say("No folder is lost.")
    if any(row["error"] is not None for row in rows):
        raise typer.Exit(1)


def _lost(spec: Path, home: Path | None) -> Iterator[tuple[Path, Charge]]:
    """Go through the published releases of a product whose folder is gone, each with where it was."""
    from tabularium.tasks.publish.release_folder import published_in
    from tabularium.validations.release_spec.load import load_spec

    about = load_spec(spec).spec
    with open_ledger(home, reading=True) as ledger:
        charges = [charge for account in ledger.accounts() for charge in ledger.all_charges(account.name)]
    for charge in charges:
        base = published_in(Home.at(home), charge.release_id)  # none of tallies, which lie with their release
        if charge.product == about.product and charge.state == "published" and base is not None:
            folder = base / charge.product / charge.period / charge.release_id
            if not folder.exists():
                yield folder, charge


def _made(folder: Path, charge: Charge, spec: Path, home: Path | None) -> dict[str, Any]:
    from tabularium.flows.release_chain import rebuild_lost
    from tabularium.tasks.runtime.run import Request, load

    named = (spec, None, charge.period, home, charge.revises)
    error = None
    try:
        request = Request.of(*named, measurements_of=charge.measurements_of)
        loaded = load(request)
        if loaded.digest != charge.spec_digest:
            raise InputError(
                "is not the spec that it was published by", where=str(spec), hint="give the file of then"
            )
        rebuild_lost(request, loaded, folder)
    except TabulariumError as failure:
        # That it was withdrawn is written after its folder was made.
        error = None if folder.exists() else failure.line()
    return {
        "release_id": charge.release_id,
        "product": charge.product,
        "period": charge.period,
        "folder": str(folder),
        "error": error,
    }


def withdraw(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="Id of the release, or its folder.")],
    key: KeyFile,
    reason: Annotated[str, typer.Option(help="One line that every reader sees, without figures.")],
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a published release, signed with an enrolled key. This cannot be undone.

    Its folder stays, and its budget stays spent. The link `current` and index.json change.

    With --json: release_id, entry, at, key, reason, and current (a release id, or null).
    """
    with one_line_errors():
        folder = Path(release)
        name = folder.resolve().name if folder.is_dir() else release
        decided = officer(home, key).withdraw(name, reason=reason)
        if not as_json:
            say_decided(decided)
            return
        with tabularium.open_ledger(home) as books:
            withdrawal = books.charged(name).withdrawal
        print_json(
            {**(vars(withdrawal) if withdrawal is not None else {}), "current": decided.current or None}
        )


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="report", epilog=_REPORT_EXAMPLES)(report_release)
    app.command(name="site", epilog=_SITE_EXAMPLES)(site)
    app.command(name="series", epilog=_SERIES_EXAMPLES)(series)
    app.command(name="diff", epilog=_DIFF_EXAMPLES)(diff)
    app.command(epilog="Example:  tabularium rebuild census.yaml farms.yaml")(rebuild)
    app.command(
        epilog='Example:  tabularium withdraw RELEASE --reason "a region was coded twice" --key officer.pem'
    )(withdraw)
