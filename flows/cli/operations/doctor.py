"""``tabularium doctor``: whether an installation is well, line by line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from tabularium.flows.cli.terminal import AsJson, HomePath, one_line_errors, out, print_json, working
from tabularium.tasks.runtime.home import Home

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    home: HomePath = None,
    account_for: Annotated[
        bool,
        typer.Option("--account-for", help="Also compare every drop, charge and published folder."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the installation: one line for each part, with a fix for what is wrong.

    Opens no data. Exits with 1 if something fails.
    """
    with one_line_errors():
        from tabularium.flows.cli.operations.prefect_health import prefect_checks
        from tabularium.tasks.custody.home_health import health_checks, seen

        installation = Home.found(home)
        with working("looking"):
            looks = [*health_checks(installation), *seen("server", lambda: prefect_checks(installation))]
            if account_for:
                from tabularium.tasks.custody import home_health as accounts

                looks += seen("accounts", lambda: accounts.account_for(installation))
        failed = any(look.state == "fail" for look in looks)
        if as_json:
            print_json({"well": not failed, "looks": [asdict(look) for look in looks]})
        for look in looks if not as_json else ():
            line = Text.assemble((f"{look.state:<5}", _COLOURS[look.state]), f"{look.thing:<13} {look.said}")
            out.print(line.append(f"; {look.hint}" if look.hint else ""), soft_wrap=True)
        if failed:
            raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example:  tabularium doctor --account-for --home /srv/tabularium")(doctor)
