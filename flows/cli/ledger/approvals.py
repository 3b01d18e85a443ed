"""``tabularium ledger approve|unapprove|disjoint|keys``: what officers sign."""

from __future__ import annotations

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
    open_ledger,
    passphrase,
    resume_waiting_runs,
    say,
    say_who_waits,
)
from tabularium.flows.cli.options import AsJson, HomePath, MeasurementsOf, Revises
from tabularium.flows.cli.terminal import one_line_errors, out, print_json, table, working
from tabularium.ledger.keys import (
    key_id,
    make_key,
    public_hex,
    public_pem,
    read_private,
    read_public,
)
from tabularium.ledger.records import Approval, Key, ReleaseKey
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from tabularium import Decision
    from tabularium.ledger import Ledger

Account = Annotated[str | None, typer.Option(help="Account, where a digest is given instead of a spec.")]
keys = typer.Typer(
    help="Officers' keys: new, enrol, revoke; alone, it lists them.", invoke_without_command=True
)
app.add_typer(keys, name="keys")


@app.command(
    "approve", epilog="Example:  tabularium ledger approve census.yaml --period 2026 --key officer.pem"
)
def approve(
    spec: Annotated[str, typer.Argument(help="The release spec (YAML), or its digest with --account.")],
    key: KeyFile,
    periods: Annotated[
        list[str] | None,
        typer.Option("--period", help="Approve it for this period instead of its own; may be repeated."),
    ] = None,
    revises: Revises = None,
    measurements_of: MeasurementsOf = None,
    account: Account = None,
    product: Annotated[
        str | None,
        typer.Option(help="The product of a digest, where products ask for more officers than the account."),
    ] = None,
    amount: Annotated[
        str | None, typer.Option(help="The most each may cost; default: the spec's budget.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="A note; kept in the ledger.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask at a terminal before it is signed.")] = False,
    even_if_unpaid: Annotated[
        bool, typer.Option("--even-if-unpaid", help="Sign what the account cannot pay, too.")
    ] = False,
    home: HomePath = None,
) -> None:
    """Approve a spec, signed with an enrolled key. A spec that is changed afterwards is another spec.

    Of a spec file it first shows what will be published and what that costs. At a terminal it asks. Where
    several officers must approve it, each runs this, for the same amount.
    """
    with open_ledger(home) as ledger:
        if account is not None and periods:
            raise InputError(
                "a digest is of one period already",
                where="--period",
                hint="give the spec, without --account",
            )
        each: list[str | None] = [*dict.fromkeys(periods or ())] or [None]
        by = read_private(key, passphrase())
        wanted: list[tuple[str | None, str, str, str | None]]
        if account is None and product is not None:
            raise InputError(
                "a spec names its product itself", where="--product", hint="give it only with a digest"
            )
        if account is not None:
            wanted = [(None, *_named(spec, account, None, revises, measurements_of))]
        else:  # what is signed is what was shown, whatever becomes of the file meanwhile
            shown = _shown(home, Path(spec), each, revises, measurements_of, even_if_unpaid=even_if_unpaid)
            wanted = [
                (period, found.account, found.spec_digest, str(found.budget))
                for period, found in zip(each, shown, strict=True)
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
                found = ledger.approve(name, digest, by=by, amount=most, reason=reason, product=product)
                approved.append((period, found))
        finally:
            _say_approved(approved, needed, listed=len(wanted) > 1)
        if account is not None and not ledger.account(account).left:
            say(f"Account {account} has nothing left: it cannot pay, unless that is paid already.")
    enough = [each.spec_digest for _, each in approved if len(each.signed_by(needed)) >= needed]
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
        found = [
            books.decision(spec, period=period, revises=revises, measurements_of=measurements_of)
            for period in periods
        ]
        shown = repr(found[0])
    say(shown)
    for other in found[1:]:
        say(other.headline)
    cost, left, account = sum((each.cost for each in found), Fraction(0)), found[0].left, found[0].account
    if len(found) > 1:
        say(f"Together they cost {cost}.")
    unpaid = next((each for each in found if not each.can_be_paid), None)
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
    return found


def _say_approved(approved: list[tuple[str | None, Approval]], needed: int, *, listed: bool) -> None:
    """Say what is approved, and of what more officers must approve how many have."""
    if not approved:
        return
    rows = table("period", "spec", "limit", *(["officers"] if needed > 1 else []))
    rows.columns[1].overflow = "fold"
    for period, each in approved:
        limit = "any amount" if each.amount is None else f"at most {each.amount}"
        signers = each.signed_by(needed)
        have, names = f"{len(signers)} of {needed}", ", ".join(signer.officer for signer in signers)
        rows.add_row(*cells(period, each.spec_digest, limit, *([f"{have}: {names}"] if needed > 1 else [])))
        if not listed and len(signers) >= needed:
            say(f"Spec {each.spec_digest} is approved for account {each.account}, for {limit}.")
        elif not listed:
            say(f"{have} officers have approved spec {each.spec_digest}, for {limit}: {names}.")
    if listed:
        say(f"Approved for account {approved[0][1].account}:")
        out.print(rows)


@app.command(
    "unapprove", epilog='Example:  tabularium ledger unapprove census.yaml --key o.pem --reason "error"'
)
def unapprove(
    spec: Annotated[str, typer.Argument(help="The release spec (YAML), or its digest with --account.")],
    key: KeyFile,
    reason: Reason,
    period: Annotated[str | None, typer.Option(help="The period that was approved.")] = None,
    revises: Revises = None,
    measurements_of: MeasurementsOf = None,
    account: Account = None,
    home: HomePath = None,
) -> None:
    """Take back the approval of a spec; what is paid for goes on."""
    with open_ledger(home) as ledger:
        name, digest, _budget = _named(spec, account, period, revises, measurements_of, ledger)
        ledger.unapprove(name, digest, by=read_private(key, passphrase()), reason=reason)
        say(f"Spec {digest} is no longer approved for account {name}.")


@app.command(
    "disjoint",
    epilog='Example:  tabularium ledger disjoint born-1990 born-1991 --key o.pem --reason "one birth each"',
)
def disjoint(
    population: Annotated[str, typer.Argument(help="A population that an account is about.")],
    other: Annotated[str, typer.Argument(help="Another one.")],
    key: KeyFile,
    reason: Reason,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take back that they are.")] = False,
    home: HomePath = None,
) -> None:
    """Say, signed, that nobody is in both populations, so that `ledger review` need not add them."""
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
    from tabularium.validations.spec.load import load_spec

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
    found = list(known)
    if as_json:
        print_json([{**vars(key), "active": key.active} for key in found])
        return
    if not found:
        say(nothing)
        return
    officers = {key.key: key.officer for key in found if isinstance(key, Key)}
    rows = table("key", whose, "state", "since", *(["enrolled by"] if officers else []))
    rows.columns[0].no_wrap = True
    for key in found:
        state = "active" if key.active else f"revoked by entry {key.revoked}"
        by = [officers[key.enrolled_by]] if isinstance(key, Key) else []
        rows.add_row(*cells(key.key, getattr(key, whose), state, key.since[:10], *by))
    out.print(rows)


@keys.command("new", epilog="Example:  tabularium ledger keys new officer.pem")
def new(file: Annotated[Path, typer.Argument(help="File to make, mode 0600.")]) -> None:
    """Make a private key. TABULARIUM_KEY_PASSPHRASE, if set, encrypts it."""
    with one_line_errors():
        make_pair(file, passphrase())


def make_pair(file: Path, hidden: bytes | None) -> None:
    """Make a private key and, beside it, the file of its public half; say where they are."""
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
        found = ledger.enrol_key(read_public(file), officer=officer, by=by)
        say(f"Key {found.key} of {found.officer} is enrolled.")


@keys.command("revoke", epilog='Example:  tabularium ledger keys revoke NAME --reason "lost" --key a.pem')
def revoke(
    name: Annotated[str, typer.Argument(help="The key's name, as `ledger keys` shows it.")],
    reason: Reason,
    key: KeyFile,
    home: HomePath = None,
) -> None:
    """Revoke a key; what it approved counts no more for new charges."""
    with open_ledger(home) as ledger:
        found = ledger.revoke_key(name, reason=reason, by=read_private(key, passphrase()))
        say(f"Key {found.key} of {found.officer} is revoked.")
