"""Decisions of officers: ``ledger approve|unapprove|disjoint|keys|waiting|accept|withhold|evidence``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabularium.flows.cli.ledger.shared_options import (
    KeyFile,
    Reason,
    app,
    cells,
    exact_or_none,
    officer,
    open_books,
    open_ledger,
    passphrase,
    resume_waiting_runs,
    say_decided,
    say_who_waits,
)
from tabularium.flows.cli.terminal import (
    AsJson,
    HomePath,
    MeasurementsOf,
    Revises,
    err,
    one_line_errors,
    out,
    print_json,
    say,
    table,
    working,
)
from tabularium.ledger.keys import key_id, make_key, public_hex, public_pem, read_private, read_public
from tabularium.ledger.records import Approval, Key, ReleaseKey
from tabularium.ledger.refusals import unknown_release
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import bare_errors

if TYPE_CHECKING:
    from tabularium import Decision
    from tabularium.ledger import Ledger

Account = Annotated[str | None, typer.Option(help="Account of a digest.")]
keys = typer.Typer(
    help="Officers' keys: new, enrol, revoke; without a command, list them.\n\nWith --json: a list with key, "
    "officer, public_key, since, enrolled_by (the key that signed), revoked (number of the entry, or null) "
    "and active.",
    invoke_without_command=True,
)
app.add_typer(keys, name="keys")


@app.command(
    "approve", epilog="Example:  tabularium ledger approve census.yaml --period 2026 --key officer.pem"
)
def approve(
    spec: Annotated[str, typer.Argument(help="The release spec (YAML), or a digest with --account.")],
    key: KeyFile,
    periods: Annotated[
        list[str] | None,
        typer.Option("--period", help="For this period instead; repeatable."),
    ] = None,
    revises: Revises = None,
    measurements_of: MeasurementsOf = None,
    account: Account = None,
    product: Annotated[
        str | None,
        typer.Option(help="Product of a digest, if it needs more officers than the account."),
    ] = None,
    amount: Annotated[
        str | None, typer.Option(help="The most that one charge may cost; default: the spec's budget.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="A note; kept in the ledger.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Sign without asking at a terminal.")] = False,
    even_if_unpaid: Annotated[
        bool, typer.Option("--even-if-unpaid", help="Sign even if the account cannot pay.")
    ] = False,
    home: HomePath = None,
) -> None:
    """Approve a spec, signed with an enrolled key. A changed spec needs another approval.

    It first shows what will be published and its cost. Where several officers must approve, each runs this
    for the same amount.
    """
    with open_ledger(home) as ledger:
        if account is not None and periods:
            raise InputError(
                "a digest is of one period already",
                where="--period",
                hint="give the spec, without --account",
            )
        asked_periods: list[str | None] = [*dict.fromkeys(periods or ())] or [None]
        by = read_private(key, passphrase())
        wanted: list[tuple[str | None, str, str, str | None]]
        if account is None and product is not None:
            raise InputError(
                "a spec names its product itself", where="--product", hint="give it only with a digest"
            )
        if account is not None:
            wanted = [(None, *_named(spec, account, None, revises, measurements_of))]
        else:  # what is signed is what was shown, whatever becomes of the file meanwhile
            shown = _shown(
                home, Path(spec), asked_periods, revises, measurements_of, even_if_unpaid=even_if_unpaid
            )
            wanted = [
                (period, decision.account, decision.spec_digest, str(decision.budget))
                for period, decision in zip(asked_periods, shown, strict=True)
            ]
            product = shown[0].product
        limits = [
            exact_or_none(*((budget, "budget") if amount is None else (amount, "--amount")))
            for *_, budget in wanted
        ]
        if amount is not None:
            say(f"Each may cost {'any amount' if limits[0] is None else f'at most {limits[0]}'}.")
        if not yes and sys.stdin.isatty():
            typer.confirm("Sign the approval?", abort=True)
        name = wanted[0][1]
        terms = ledger.account(name).terms
        needed = terms.approvals_for(product)
        approved: list[tuple[str | None, Approval]] = []
        try:
            for (period, _, digest, _), most in zip(wanted, limits, strict=True):
                approval = ledger.approve(name, digest, by=by, amount=most, reason=reason, product=product)
                approved.append((period, approval))
        finally:
            _say_approved(approved, needed, listed=len(wanted) > 1)
        if account is not None and not ledger.account(account).left:
            say(f"Account {account} has nothing left: it cannot pay, unless that is paid already.")
    enough = [approval.spec_digest for _, approval in approved if len(approval.signed_by(needed)) >= needed]
    if enough and not resume_waiting_runs(home, spec_digests=enough):
        say_who_waits(home)


def _shown(
    home: Path | None,
    spec: Path,
    periods: list[str | None],
    revises: str | None,
    measurements_of: str | None,
    *,
    even_if_unpaid: bool,
) -> list[Decision]:
    """Show what will be published, and return it; refuse what cannot be paid."""
    if not spec.exists():
        raise InputError("no such spec", where=str(spec), hint="give a spec file, or a digest with --account")
    with working("reading the spec"):
        import tabularium

        books = tabularium.open_ledger(Home.found(home).path)
        decisions = [
            books.decision(spec, period=period, revises=revises, measurements_of=measurements_of)
            for period in periods
        ]
        shown = repr(decisions[0])
    say(shown)
    for other in decisions[1:]:
        say(other.headline)
    cost, left, account = (
        sum((decision.cost for decision in decisions), Fraction(0)),
        decisions[0].left,
        decisions[0].account,
    )
    if len(decisions) > 1:
        say(f"Together they cost {cost}.")
    unpaid = next((decision for decision in decisions if not decision.can_be_paid), None)
    if (unpaid is not None or cost > left) and not even_if_unpaid:
        costs = f"the {cost} that they cost together"
        if unpaid is not None:
            costs = f"{unpaid.product} {unpaid.period}, which costs {unpaid.cost}"
        raise InputError(
            f"account {account} has {left} left and cannot pay {costs}",
            where=str(spec),
            hint=f"see its caps and days: tabularium ledger show {account}; an officer raises a cap with "
            f"tabularium ledger change {account} --cap … --reason … --key FILE{Home.found(home).option}; "
            "or sign it all the same with --even-if-unpaid",
        )
    return decisions


def _say_approved(approved: list[tuple[str | None, Approval]], needed: int, *, listed: bool) -> None:
    """Say what is approved, and of what more officers must approve how many have."""
    if not approved:
        return
    rows = table("period", "spec", "limit", *(["officers"] if needed > 1 else []))
    rows.columns[1].overflow = "fold"
    for period, approval in approved:
        limit = "any amount" if approval.amount is None else f"at most {approval.amount}"
        signers = approval.signed_by(needed)
        have, names = f"{len(signers)} of {needed}", ", ".join(signer.officer for signer in signers)
        rows.add_row(
            *cells(period, approval.spec_digest, limit, *([f"{have}: {names}"] if needed > 1 else []))
        )
        if not listed and len(signers) >= needed:
            say(f"Spec {approval.spec_digest} is approved for account {approval.account}, for {limit}.")
        elif not listed:
            say(f"{have} officers have approved spec {approval.spec_digest}, for {limit}: {names}.")
    if listed:
        say(f"Approved for account {approved[0][1].account}:")
        out.print(rows)


@app.command(
    "unapprove", epilog='Example:  tabularium ledger unapprove census.yaml --key o.pem --reason "error"'
)
def unapprove(
    spec: Annotated[str, typer.Argument(help="The release spec (YAML), or a digest with --account.")],
    key: KeyFile,
    reason: Reason,
    period: Annotated[str | None, typer.Option(help="The period that was approved.")] = None,
    revises: Revises = None,
    measurements_of: MeasurementsOf = None,
    account: Account = None,
    home: HomePath = None,
) -> None:
    """Take back the approval of a spec; releases that are paid for continue."""
    with open_ledger(home) as ledger:
        name, digest, _budget = _named(spec, account, period, revises, measurements_of, ledger)
        ledger.unapprove(name, digest, by=read_private(key, passphrase()), reason=reason)
        say(f"Spec {digest} is no longer approved for account {name}.")


@app.command(
    "disjoint",
    epilog='Example:  tabularium ledger disjoint born-1990 born-1991 --key o.pem --reason "one birth each"',
)
def disjoint(
    population: Annotated[str, typer.Argument(help="Population of an account.")],
    other: Annotated[str, typer.Argument(help="Another one.")],
    key: KeyFile,
    reason: Reason,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take the declaration back.")] = False,
    home: HomePath = None,
) -> None:
    """Declare, signed, that nobody is in both populations, so that `ledger review` need not add them."""
    with open_ledger(home) as ledger:
        by = read_private(key, passphrase())
        ledger.declare_disjoint(population, other, reason=reason, by=by, disjoint=not withdraw)
        now = "added again" if withdraw else "reported apart"
        say(f"The populations {population} and {other} are {now}; see: tabularium ledger review")


def _named(
    spec: str,
    account: str | None,
    period: str | None,
    revises: str | None,
    measurements_of: str | None,
    ledger: Ledger | None = None,
) -> tuple[str, str, str | None]:
    """Return account, digest and budget of a spec file, or of a digest with its account.

    What was approved in ``ledger`` already is taken by whatever name it has there.
    """
    if account is not None:
        known = None if ledger is None else ledger.approval(account, spec)
        if known is None and re.fullmatch(r"[0-9a-f]{64}", spec) is None:
            if Path(spec).exists():
                raise InputError("is a file, not a spec's digest", where=spec, hint="leave out --account")
            raise InputError(
                "is not a spec's digest, which is 64 digits and small letters a to f",
                where="SPEC",
                hint="copy all of it from the line of the run that was stopped, or give only the spec file",
            )
        return account, spec, None
    if not Path(spec).exists():
        raise InputError("no such spec", where=spec, hint="give a spec file, or a digest with --account")
    from tabularium.validations.release_spec.load import load_spec

    loaded = load_spec(Path(spec), period=period, revises=revises, measurements_of=measurements_of)
    return loaded.spec.dataset, loaded.digest, str(loaded.spec.privacy.budget)


@keys.callback(epilog="Example:  tabularium ledger keys")
def list_keys(context: typer.Context, home: HomePath = None, as_json: AsJson = False) -> None:
    """List the keys that were ever enrolled; see the commands below to make, enrol and revoke."""
    if context.invoked_subcommand is not None:
        return
    with open_ledger(home, reading=True) as ledger:
        nothing = "No key is enrolled yet: tabularium ledger keys new officer.pem"
        show_keys(ledger.keys().values(), "officer", nothing, as_json=as_json)


def show_keys(known: Iterable[Key | ReleaseKey], whose: str, nothing: str, *, as_json: bool) -> None:
    """List keys, in a table with the column ``whose`` or as JSON; say ``nothing`` where there is none."""
    keys = list(known)
    if as_json:
        print_json([{**vars(key), "active": key.active} for key in keys])
        return
    if not keys:
        say(nothing)
        return
    officers = {key.key: key.officer for key in keys if isinstance(key, Key)}
    rows = table("key", whose, "state", "since", *(["enrolled by"] if officers else []))
    rows.columns[0].no_wrap = True
    for key in keys:
        state = "active" if key.active else f"revoked by entry {key.revoked}"
        by = [officers[key.enrolled_by]] if isinstance(key, Key) else []
        rows.add_row(*cells(key.key, getattr(key, whose), state, key.since[:10], *by))
    out.print(rows)


@keys.command("new", epilog="Example:  tabularium ledger keys new officer.pem")
def new(file: Annotated[Path, typer.Argument(help="File to make, mode 0600.")]) -> None:
    """Make a private key, encrypted with TABULARIUM_KEY_PASSPHRASE if that is set."""
    with one_line_errors():
        make_pair(file, passphrase())


def make_pair(file: Path, hidden: bytes | None) -> None:
    """Make a private key and, next to it, the file of its public half; say where they are."""
    public = file.with_suffix(".pub.pem")
    for there in (file, public):
        if there.exists():
            raise InputError("is there already", where=str(there), hint="name a new file")
    key = make_key(file, hidden)
    try:
        with public.open("x") as text:
            text.write(public_pem(public_hex(key)))
    except OSError as error:
        file.unlink()  # nobody can enrol it: the next try may have its name
        reason = error.strerror
    else:
        say(f"private key {file}")
        say(f"public key  {public} ({key_id(public_hex(key))})")
        return
    raise InputError(f"cannot be written ({reason})", where=str(public), hint="name another file")


@keys.command(
    "enrol", epilog='Example:  tabularium ledger keys enrol b.pub.pem --officer "B. Ito" --key a.pem'
)
def enrol(
    file: Annotated[Path, typer.Argument(help="Public key (PEM).")],
    officer: Annotated[str, typer.Option(help="Whose key it is.")],
    key: KeyFile,
    home: HomePath = None,
) -> None:
    """Enrol a public key, signed with an enrolled one (the first signs for itself)."""
    with open_ledger(home) as ledger:
        by = read_private(key, passphrase())
        enrolled = ledger.enrol_key(read_public(file), officer=officer, by=by)
        say(f"Key {enrolled.key} of {enrolled.officer} is enrolled.")


@keys.command("revoke", epilog='Example:  tabularium ledger keys revoke NAME --reason "lost" --key a.pem')
def revoke(
    name: Annotated[str, typer.Argument(help="Name that `ledger keys` shows.")],
    reason: Reason,
    key: KeyFile,
    home: HomePath = None,
) -> None:
    """Revoke a key; its approvals no longer count for new charges."""
    with open_ledger(home) as ledger:
        revoked = ledger.revoke_key(name, reason=reason, by=read_private(key, passphrase()))
        say(f"Key {revoked.key} of {revoked.officer} is revoked.")


Release = Annotated[str, typer.Argument(help="Release id of the draft.")]
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

    Errors name what could not be checked.

    With --json: a list with account, product, period, since, kind (approval, review, attempts, refused or
    overdue), amount (or null), digest (of spec or draft), command (to type), asks (the run or deployment that
    waits), about (what happened), next (what will), release (of review and attempts), officers (how many must
    sign) and signed (who has). Of approval also spec, revises and measurements_of.
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
    """Publish a draft byte for byte, signed with an enrolled key; the waiting run does it, or this command.

    Where several officers must accept, the last one publishes. It cannot be undone.
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

    Later certificates of the account name it, its cost, the criterion, and whether confidential figures were
    consulted. Its folder is removed. This cannot be undone.
    """
    with one_line_errors():
        say_decided(
            officer(home, key).withhold(
                release, criterion=criterion, consulted_confidential=consulted_confidential
            )
        )


@app.command(
    "evidence", epilog="Example:  tabularium ledger evidence RELEASE census-2026.parquet --key officer.pem"
)
def evidence(
    release: Annotated[str, typer.Argument(help="Id of the release.")],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A file, glob, folder or URL.")],
    key: KeyFile,
    spec: Annotated[Path | None, typer.Option(help="The release spec, if the input is behind a URL.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why; kept in the ledger.")] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Answer whether RELEASE was made from INPUT. Only the home knows.

    The ledger records the question, signed, but not the answer.

    With --json: release_id, and same (true, false, or null if the home no longer knows).
    """
    with open_ledger(home) as ledger:
        charge = ledger.charge(release)
        if charge is None:
            raise unknown_release(release)
        Home.at(home).require_secret()
        by = read_private(key, passphrase())
        with working("reading the input"):
            digest = _digest(source, spec, charge.period, Home.at(home))
        ledger.ask_for_evidence(charge, by=by, reason=reason)
        from tabularium.tasks.input_binding import has_source, is_bound

        same = is_bound(Home.at(home), release, digest)
        if same is False and spec is None and has_source(Home.at(home), release, digest):
            raise InputError(
                "is the source of this release, and its look-ups belong to the input too",
                where="INPUT",
                hint="name the spec that reads them with --spec",
            )
        if as_json:
            print_json({"release_id": release, "same": same})
        elif same is None:
            say(f"The home does not know from which input release {release} was made.")
        else:
            say(f"This is {'' if same else 'not '}the input that release {release} was made from.")


@bare_errors
def _digest(source: str, spec: Path | None, period: str, home: Home) -> str:
    from tabularium.tasks.ingest.ingest import files_digest, ingest
    from tabularium.tasks.runtime.run import Request, opened

    if spec is not None:
        with opened(Request.of(spec, source, period, home.path), to_publish=False) as run:
            return ingest(run).digest
    if "://" in source:
        raise InputError("is a URL", where="INPUT", hint="name the spec that reads it with --spec")
    try:
        return files_digest(os.path.abspath(source), home.subkey("input"))  # noqa: PTH100 - it may be a glob
    except InputError as error:
        hint = "give the file, glob or folder of the release, or name the spec that reads it with --spec"
        raise InputError(error.what, where=f"INPUT {source}", hint=hint) from None
