"""``tabularium ledger waiting|accept|withhold``: what waits for a person, and decisions about drafts."""

from __future__ import annotations

from typing import Annotated

import typer

from tabularium.flows.cli.ledger.shared_options import (
    KeyFile,
    app,
    cells,
    officer,
    open_books,
    say,
    say_decided,
)
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import err, one_line_errors, out, print_json, table, working

Release = Annotated[str, typer.Argument(help="Release id, as the run that wrote the draft shows it.")]
Consulted = Annotated[
    bool,
    typer.Option(
        "--consulted-confidential",
        help="You consulted confidential figures: the decision is outside the guarantee.",
    ),
]


@app.command("waiting", epilog="Example:  tabularium ledger waiting --json")
def waiting(home: HomePath = None, as_json: AsJson = False) -> None:
    """Show what waits for a person, the oldest first.

    It lists specs to approve, drafts to review, releases that need more attempts, refused deliveries, and
    overdue releases. What could not be checked is named on standard error.

    With --json a list: kind (approval, review, attempts, refused or overdue), account, product, period,
    amount (an exact fraction, or null where it is not known here), digest (of the spec or draft), since,
    command (empty where nothing is to be typed), asks (the run or deployment that waits), about (what
    happened, such as "refused: data"), next (what happens next), release (of review and attempts), spec,
    revises and measurements_of (of approval; empty where its file is not here, or has changed), officers
    (how many must sign) and signed (who has).
    """
    with open_books(home, None) as books:
        with working("looking"):
            found = books.waiting()
        for unknown in found.unknown:
            err.print(unknown, soft_wrap=True, markup=False, highlight=False)
        rows = found.to_dict("records")
        if as_json:
            print_json(
                [
                    {
                        **each,
                        "amount": None if each["amount"] is None else str(each["amount"]),
                        "since": each["since"].isoformat(),
                    }
                    for each in rows
                ]
            )
            return
        if not rows:
            say("Nothing waits for a person.")
            return
        several = any(each["officers"] > 1 for each in rows)
        signed = ["signed"] if several else []
        shown = table("what", "product", "period", ">cost", "since", *signed, "about")
        for each in rows:
            cost = "" if each["amount"] is None else each["amount"]
            since = f"{each['since']:%Y-%m-%d %H:%M}"
            names = f": {', '.join(each['signed'])}" if each["signed"] else ""
            signed = [f"{len(each['signed'])} of {each['officers']}{names}" if each["officers"] else ""]
            signed = signed if several else []
            about = (each["kind"], each["product"], each["period"], cost, since, *signed, each["about"])
            shown.add_row(*cells(*about))
        out.print(shown)
        for each in rows:
            where = ", ".join(filter(None, (each["product"], each["period"])))
            say(f"{where}: {each['next']}")
            if each["command"]:
                say(f"  {each['command']}")


@app.command("accept", epilog="Example:  tabularium ledger accept RELEASE --key officer.pem")
def accept(
    release: Release, key: KeyFile, consulted_confidential: Consulted = False, home: HomePath = None
) -> None:
    """Publish a draft byte for byte, signed with an enrolled key; the waiting run does it, or this command.

    Repeating it publishes nothing more. It cannot be undone. Where several officers must accept, each runs
    this, and the last one publishes.
    """
    with one_line_errors():
        say_decided(officer(home, key).accept(release, consulted_confidential=consulted_confidential))


@app.command(
    "withhold",
    epilog="Example:  tabularium ledger withhold RELEASE --criterion implausible --key officer.pem",
)
def withhold(
    release: Release,
    key: KeyFile,
    criterion: Annotated[str, typer.Option(help="Why: one of publication.review.criteria of the spec.")],
    consulted_confidential: Consulted = False,
    home: HomePath = None,
) -> None:
    """Withhold a draft, signed with an enrolled key: it is never published, and its budget stays spent.

    Later certificates of the account name it, the criterion, whether confidential figures were consulted, and
    what it cost. Its folder is removed. This cannot be undone.
    """
    with one_line_errors():
        say_decided(
            officer(home, key).withhold(
                release, criterion=criterion, consulted_confidential=consulted_confidential
            )
        )
