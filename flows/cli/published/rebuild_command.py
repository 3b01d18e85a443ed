"""``tabularium rebuild``: lost folders of published releases, made anew from what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tabularium.flows.cli.ledger.shared_options import open_ledger, say
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import one_line_errors, print_json
from tabularium.ledger import Charge
from tabularium.mechanisms.errors import InputError, TabulariumError
from tabularium.tasks.publish.release_folder import published_in
from tabularium.tasks.runtime.home import Home


def rebuild(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="The specs of the products.")],
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Restore lost folders of published releases, byte for byte. Costs no budget, opens no data.

    Looks for every period and revision of each product where it was published. If that disk is gone, mount
    it first; otherwise the folders are written to the empty mount point.

    With --json a list with release_id, product, period, folder, and error, which is null where it was made.
    """
    with one_line_errors():
        found = [_made(place, charge, spec, home) for spec in specs for place, charge in _lost(spec, home)]
    if as_json:
        print_json(found)
    for each in found if not as_json else []:
        say(each["folder"] if each["error"] is None else f"not made: {each['folder']}: {each['error']}")
    if not found and not as_json:
        say("No folder is lost.")
    if any(each["error"] is not None for each in found):
        raise typer.Exit(1)


def _lost(spec: Path, home: Path | None) -> Iterator[tuple[Path, Charge]]:
    """Go through the published releases of a product whose folder is gone, each with where it was."""
    from tabularium.validations.spec.load import load_spec

    about = load_spec(spec).spec
    with open_ledger(home, reading=True) as ledger:
        charges = [charge for account in ledger.accounts() for charge in ledger.each_charge(account.name)]
    for charge in charges:
        base = published_in(Home.at(home), charge.release_id)  # none of tallies, which lie with their release
        if charge.product == about.product and charge.state == "published" and base is not None:
            place = base / charge.product / charge.period / charge.release_id
            if not place.exists():
                yield place, charge


def _made(place: Path, charge: Charge, spec: Path, home: Path | None) -> dict[str, Any]:
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
        rebuild_lost(request, loaded, place)
    except TabulariumError as failure:
        # That it was withdrawn is said after its folder was made.
        error = None if place.exists() else failure.line()
    return {
        "release_id": charge.release_id,
        "product": charge.product,
        "period": charge.period,
        "folder": str(place),
        "error": error,
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium rebuild census.yaml farms.yaml")(rebuild)
