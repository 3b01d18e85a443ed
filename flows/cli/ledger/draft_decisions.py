"""``tabularium ledger waiting|accept|withhold``: what waits for a person, and decisions about drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.ledger.shared_options import (
    KeyFile,
    app,
    cells,
    go_on,
    open_books,
    open_ledger,
    passphrase,
    say,
)
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import err, out, print_json, table, working
from tabularium.ledger import Draft, Ledger, WrongState
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.officers.keys import read_private
from tabularium.tasks.runtime.home import Home

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
            signed = [f"{len(each['signed'])} of {each['officers']}{names}"] if several else []
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
    """Publish a draft byte for byte, signed with an enrolled key: by the run that waits for it, or here.

    Asked for twice, it is published once. It is not taken back. Where several officers must accept it, each
    runs this, and it is published with the last.
    """
    from tabularium.tasks.publish.draft_folder import LaidOut, publish_accepted, require_whole

    with open_ledger(home) as ledger:
        installation, draft = Home.at(home), _draft(ledger, release)
        laid_out = LaidOut.of(installation, release)
        if not draft.accepted:
            charge = ledger.charge(release)
            if charge is not None and not charge.final:
                require_whole(Path(laid_out.draft), draft)
            by = read_private(key, passphrase())
            draft = ledger.accept(
                release, draft=draft.digest, by=by, consulted_confidential=consulted_confidential
            )
            if not draft.accepted:
                left = draft.needed - len(draft.acceptances)
                others = "another has" if left == 1 else f"{left} others have"
                say(f"{draft.signed} officers have accepted it; it is published when {others}.")
                return
            say(f"Release {release} is accepted.")
        if go_on(home, release_id=release):
            say(f"It will be published by the run that waited: {laid_out.release}")
            return
        with hold(ledger, release):
            publish_accepted(installation, ledger, release)
        say(f"Published: {laid_out.release}")


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
    with open_ledger(home) as ledger:
        draft = _draft(ledger, release)
        with hold(ledger, release):
            ledger.withhold(
                release,
                draft=draft.digest,
                criterion=criterion,
                by=read_private(key, passphrase()),
                consulted_confidential=consulted_confidential,
            )
            from tabularium.tasks.publish.draft_folder import remove_draft

            remove_draft(Home.at(home), release)
        say(f"Release {release} is withheld; its budget stays spent.")
        go_on(home, release_id=release)


def _draft(ledger: Ledger, release: str) -> Draft:
    draft = ledger.draft(release)
    if draft is None:
        raise WrongState(
            "waits for no review", where=f"release {release}", mend="see: tabularium ledger show"
        )
    return draft
