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

Release = Annotated[str, typer.Argument(help="Release id, as the run that laid out the draft said it.")]
Consulted = Annotated[
    bool,
    typer.Option(
        "--consulted-confidential",
        help="Confidential figures were consulted: the decision is outside the guarantee.",
    ),
]


@app.command("waiting", epilog="Example:  tabularium ledger waiting --json")
def waiting(home: HomePath = None, as_json: AsJson = False) -> None:
    """Show what waits for a person, the oldest first.

    That is specs to be approved, drafts to be reviewed, releases that need more attempts, refused deliveries,
    and what a schedule should have published. What could not be looked at is said on standard error.

    With --json a list: kind (approval, review, attempts, refused or overdue), account, product, period,
    amount (an exact fraction, or null where it is not known here), digest (of the spec or draft), since,
    command (empty where nothing is to be typed), asks (the run or deployment that waits), about (what
    happened, such as "refused: data"), next (what happens next), release (of review and attempts), spec,
    revises and measurements_of (of approval; empty where its file is not here, or has changed), officers
    (how many must sign) and signed (who has).
    """
    with open_books(home, None) as books:
        with working("looking"):
            decisions = books.waiting()
        for unknown in decisions.unknown:
            err.print(unknown, soft_wrap=True, markup=False, highlight=False)
        rows = decisions.to_dict("records")
        if as_json:
            print_json(
                [
                    {
                        **row,
                        "amount": None if row["amount"] is None else str(row["amount"]),
                        "since": row["since"].isoformat(),
                    }
                    for row in rows
                ]
            )
            return
        if not rows:
            say("Nothing waits for a person.")
            return
        several = any(row["officers"] > 1 for row in rows)
        signed = ["signed"] if several else []
        shown = table("what", "product", "period", ">cost", "since", *signed, "about")
        for row in rows:
            cost = "" if row["amount"] is None else row["amount"]
            since = f"{row['since']:%Y-%m-%d %H:%M}"
            names = f": {', '.join(row['signed'])}" if row["signed"] else ""
            signed = [f"{len(row['signed'])} of {row['officers']}{names}" if row["officers"] else ""]
            signed = signed if several else []
            about = (row["kind"], row["product"], row["period"], cost, since, *signed, row["about"])
            shown.add_row(*cells(*about))
        out.print(shown)
        for row in rows:
            where = ", ".join(filter(None, (row["product"], row["period"])))
            say(f"{where}: {row['next']}")
            if row["command"]:
                say(f"  {row['command']}")


@app.command("accept", epilog="Example:  tabularium ledger accept RELEASE --key officer.pem")
def accept(
    release: Release, key: KeyFile, consulted_confidential: Consulted = False, home: HomePath = None
) -> None:
    """Publish a draft byte for byte, signed with an enrolled key: by the run that waits for it, or here.

    Asked for twice, it is published once. It is not taken back. Where several officers must accept it, each
    runs this, and it is published with the last.
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
    criterion: Annotated[str, typer.Option(help="For what: one of publication.review.criteria of the spec.")],
    consulted_confidential: Consulted = False,
    home: HomePath = None,
) -> None:
    """End a draft, signed with an enrolled key: it is never published, and its budget stays spent.

    Later certificates of the account name it, the criterion, whether confidential figures were consulted,
    and what it cost. Its folder is removed. It is not taken back.
    """
    with one_line_errors():
        say_decided(
            officer(home, key).withhold(
                release, criterion=criterion, consulted_confidential=consulted_confidential
            )
        )
