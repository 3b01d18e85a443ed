"""The command line: ``tabularium …``. A command's module is imported when the command is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tabularium.flows.cli.terminal import one_line_errors
from tabularium.flows.operations.prefect_limits import leave_closed_folder, refuse_planted_settings
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.progress import stopping

#: Command -> the module whose ``register`` adds it, and the line about it in the list of all commands.
COMMANDS = {
    "run": (
        "tabularium.flows.cli.run_command",
        "Publish what SPEC asks for. Running it again publishes and pays nothing more.",
    ),
    "withdraw": (
        "tabularium.flows.cli.published.release_commands",
        "Withdraw a published release, signed with an enrolled key. This cannot be undone.",
    ),
    "rebuild": (
        "tabularium.flows.cli.published.release_commands",
        "Restore lost folders of published releases, byte for byte. Costs no budget, opens no data.",
    ),
    "deploy": (
        "tabularium.flows.cli.operations.deploy",
        "Deploy SPEC to Prefect, on a schedule or for arriving data. Repeating it changes only what differs.",
    ),
    "deliver": (
        "tabularium.flows.cli.operations.deliver_command",
        "Copy FILES into an inbox as one drop. Its manifest comes last, so no half drop is read.",
    ),
    "watch": (
        "tabularium.flows.cli.operations.up",
        "Watch every inbox of a home and start releases when data arrive. Stop it with Ctrl-C.",
    ),
    "notify": (
        "tabularium.flows.cli.operations.deploy",
        "Set up Prefect's notifications from FILE. Repeating it changes only what differs.",
    ),
    "diagnose": (
        "tabularium.flows.cli.run_command",
        "Show why the data of a run were refused: rules, columns, kinds of fault, lines; no value, no count.",
    ),
    "init": (
        "tabularium.flows.cli.spec_commands",
        "Write a first spec from the names and types of the columns of DATA. Reads no record.",
    ),
    "check": (
        "tabularium.flows.cli.spec_commands",
        "List every mistake in SPEC, or what it will publish, its cost and accuracy. Opens no data.",
    ),
    "plan": (
        "tabularium.flows.cli.spec_commands",
        "Find the smallest budget, the shares and the levels that meet the targets of SPEC. Opens no data.",
    ),
    "rehearse": (
        "tabularium.flows.cli.spec_commands",
        "Try SPEC on made-up records, through the whole chain. Opens no data and no home, spends nothing.",
    ),
    "sample": (
        "tabularium.lab.commands",
        "Write synthetic microdata with code lists and a matching release spec. No real person is in it.",
    ),
    "improve": (
        "tabularium.lab.improve",
        "Merge neighbouring rows of a published noisy TABLE where that reduces its error. Costs no budget.",
    ),
    "compare": (
        "tabularium.lab.commands",
        "Compare mechanisms on public data: a table (CSV) and a page with plots. Costs no budget.",
    ),
    "query": (
        "tabularium.flows.cli.published.query_command",
        "Compute counts, sums, averages, medians and more from a release, with errors. Costs no budget.",
    ),
    "report": (
        "tabularium.flows.cli.published.release_commands",
        "Write the report of a published release: one page, for people. Costs no budget.",
    ),
    "site": (
        "tabularium.flows.cli.published.release_commands",
        "Write a web site over all releases: products, periods, search, downloads, feeds, budget over time.",
    ),
    "diff": (
        "tabularium.flows.cli.published.release_commands",
        "Show what differs between A and B. Opens no data and costs no budget.",
    ),
    "series": (
        "tabularium.flows.cli.published.release_commands",
        "Write all current periods of a product as one table with a column `period`. Costs no budget.",
    ),
    "verify": (
        "tabularium.flows.cli.published.verify_command",
        "Verify RELEASE: files, signature, certificate, budget, and tables computed again. Needs no home.",
    ),
    "demo": (
        "tabularium.lab.demo",
        "Show a release from start to end: data arrive, an officer approves, tables are published.",
    ),
    "backup": (
        "tabularium.flows.cli.operations.backup",
        "Back up ledger, measurements, bindings, secret and publication folders, and verify the copy.",
    ),
    "restore": (
        "tabularium.flows.cli.operations.backup",
        "Put a backup into a new home. Its ledger is read-only until its head is confirmed.",
    ),
    "doctor": (
        "tabularium.flows.cli.operations.doctor",
        "Check the installation: one line for each part, with a fix for what is wrong.",
    ),
    "up": (
        "tabularium.flows.cli.operations.up",
        "Run the whole installation until Ctrl-C: Prefect's server, a worker, the watcher of inboxes.",
    ),
    "desk": (
        "tabularium.flows.cli.operations.up",
        "Open the officer's desk in a browser: what waits, with cost and content, to be signed.",
    ),
    "ledger": (
        "tabularium.flows.cli.ledger.group",
        "Open accounts, see what is spent and left, verify the chain.",
    ),
}

#: What people type -> the command that does it.
OTHER_WORDS = {
    **{
        command: f"ledger {command}"
        for command in ("approve", "accept", "withhold", "open", "show", "history")
    },
    **dict.fromkeys(("publish", "release"), "run"),
    **dict.fromkeys(("validate", "lint"), "check"),
    **dict.fromkeys(("serve", "start"), "up"),
    **dict.fromkeys(("ask", "sql"), "query"),
    "schedule": "deploy",
}


class Commands(TyperGroup):
    """A group that lists its commands without importing them, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, summary) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the command itself in the place of its line in the list."""
        with one_line_errors():  # here, since what a command imports may import Prefect
            leave_closed_folder()
            refuse_planted_settings()
        if args[0] in COMMANDS:
            self.add_command(imported(args[0]))
        elif args[0] in OTHER_WORDS:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{OTHER_WORDS[args[0]]}'?")
        return super().resolve_command(ctx, args)


def imported(name: str) -> Any:
    """Return a command of ``COMMANDS`` with its options."""
    holder = typer.Typer(rich_markup_mode="rich")
    with one_line_errors():  # also of a library that is stopped while it is imported
        import_module(COMMANDS[name][0]).register(holder)
    return typer.main.get_group(holder).commands[name]


app = typer.Typer(
    name="tabularium",
    cls=Commands,
    help="Official statistics under differential privacy, with a ledger of the budget.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks print local variables, which hold data
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"tabularium {metadata.version('tabularium-dp')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options that stand before a command; every command needs a folder to work in."""
    with one_line_errors():
        try:
            Path.cwd()
        except OSError:
            raise InputError(
                "the folder you are in is gone", where="tabularium", hint="cd to another"
            ) from None


def main(*arguments: Any) -> None:
    """Entry point of the console command."""
    stopping.listen()
    app(*arguments)


if __name__ == "__main__":
    main()
