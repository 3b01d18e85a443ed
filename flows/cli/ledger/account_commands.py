"""``tabularium ledger open|change|close|retire|void|abandon|allow-attempts``: accounts, charges that end."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from tabularium.flows.cli.ledger.shared_options import (
    KeyOrNone,
    Reason,
    app,
    exact_or_none,
    open_ledger,
    resume_waiting_runs,
    signer,
)
from tabularium.flows.cli.terminal import HomePath, say
from tabularium.ledger import amounts
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.records import SYMBOLS
from tabularium.ledger.witness import NO_SECOND
from tabularium.mechanisms.errors import InputError

Amount = Annotated[str | None, typer.Option(help="As of `ledger open`, or none.")]


@app.command("open", epilog="Example:  tabularium ledger open census --cap 10")
def open_account(
    account: Annotated[str, typer.Argument(help="Its name: the spec's dataset.")],
    cap: Annotated[str, typer.Option(help="The most that may ever be spent, exact: 10, 0.5 or 1/3.")],
    unit: Annotated[str, typer.Option(help="Entity that is protected, such as household.")] = "record",
    population: Annotated[
        str | None,
        typer.Option(help="Population of the data; default: the account's name."),
    ] = None,
    relation: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    definition: Annotated[
        str, typer.Option(help="pure (amounts are ε) or zcdp (amounts are ρ; needs --delta).")
    ] = "pure",
    delta: Annotated[str | None, typer.Option(help="With zcdp: the δ that is reported.")] = None,
    cap_per_period: Annotated[str | None, typer.Option(help="The most for one period.")] = None,
    cap_per_product: Annotated[str | None, typer.Option(help="The most for one product.")] = None,
    opens_on: Annotated[str | None, typer.Option(help="First day with charges, YYYY-MM-DD (UTC).")] = None,
    closes_on: Annotated[str | None, typer.Option(help="First day without, YYYY-MM-DD (UTC).")] = None,
    needs_approval: Annotated[
        bool, typer.Option("--needs-approval", help="Every spec must be approved.")
    ] = False,
    approve_exact: Annotated[
        bool,
        typer.Option(
            "--approve-exact",
            help="Specs with exact facts must be approved: stop rules, limits on rejects, invariants, "
            "public look-ups.",
        ),
    ] = False,
    approvals: Annotated[
        int | None,
        typer.Option(
            help="Number of different officers who must approve a spec or accept a draft, 1 to 9; never "
            "lowered."
        ),
    ] = None,
    approvals_for: Annotated[
        list[str] | None, typer.Option(help="The same for one product, PRODUCT=N; repeatable.")
    ] = None,
    quantum: Annotated[
        str | None,
        typer.Option(help="Amounts are multiples of this, 1/q with q up to 10^12."),
    ] = None,
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Open an account with a cap. Sign it (--key) while an officer's key is enrolled."""
    with open_ledger(home) as ledger:
        if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", account) is None:
            raise InputError(
                "no spec could name this account as its dataset",
                where="ACCOUNT",
                hint="use small letters, digits and hyphens, at most 63",
            )
        _require_entity(unit)
        amount = amounts.exact(cap, field="--cap")
        ledger.open_account(
            account,
            unit=unit,
            population=population,
            relation=relation,
            definition=definition,
            cap=amount,
            quantum=amounts.DEFAULT_QUANTUM if quantum is None else amounts.exact(quantum, field="--quantum"),
            cap_per_period=exact_or_none(cap_per_period, "--cap-per-period"),
            cap_per_product=exact_or_none(cap_per_product, "--cap-per-product"),
            delta=exact_or_none(delta, "--delta"),
            opens_on=opens_on,
            closes_on=closes_on,
            needs_approval=needs_approval,
            approve_exact=approve_exact,
            approvals=1 if approvals is None else approvals,
            approvals_by_product=_by_product(approvals_for),
            by=signer(key),
        )
        say(f"Account {account} is open with a cap of {SYMBOLS[definition]} = {amount}.")
        if not ledger.witnessed_elsewhere:
            say(f"There is {NO_SECOND}.", style="yellow")


def _by_product(given: list[str] | None) -> dict[str, int]:
    """Read how many officers must sign for each product."""
    numbers: dict[str, int] = {}
    for text in given or ():
        product, _, number = text.rpartition("=")
        if not product or re.fullmatch("[0-9]", number) is None:
            raise InputError("is not PRODUCT=N", where="--approvals-for", hint="write it like persons=2")
        if numbers.setdefault(product, int(number)) != int(number):
            raise InputError(f"names {product} twice", where="--approvals-for", hint="give one number")
    return numbers


def _require_entity(unit: str) -> None:
    """Refuse what is no name, such as the whole unit of a spec: no spec could charge that account."""
    if re.fullmatch(r"[\w-]+", unit) is not None:
        return
    entity = re.search(r"entity\W+([\w-]+)", unit)
    raise InputError(
        "is not the name of an entity, which has only letters, digits, _ and -",
        where="--unit",
        hint=f"write --unit {entity[1] if entity else 'person'}; only the spec names the column",
    )


@app.command("change", epilog='Example:  tabularium ledger change census --cap 12 --reason "new law"')
def change(
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    reason: Reason,
    cap: Annotated[str | None, typer.Option(help="As of `ledger open`.")] = None,
    cap_per_period: Amount = None,
    cap_per_product: Amount = None,
    opens_on: Annotated[str | None, typer.Option(help="YYYY-MM-DD (UTC), or none.")] = None,
    closes_on: Annotated[str | None, typer.Option(help="YYYY-MM-DD (UTC), or none.")] = None,
    needs_approval: Annotated[
        bool | None,
        typer.Option("--needs-approval/--needs-no-approval", help="As of `ledger open`."),
    ] = None,
    approve_exact: Annotated[
        bool | None,
        typer.Option(
            "--approve-exact/--approve-no-exact",
            help="As of `ledger open`.",
        ),
    ] = None,
    approvals: Annotated[int | None, typer.Option(help="As of `ledger open`.")] = None,
    approvals_for: Annotated[list[str] | None, typer.Option(help="As of `ledger open`.")] = None,
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Change an account's caps, dates or approvals.

    Sign (--key) only what loosens a term.
    """
    with open_ledger(home) as ledger:
        new: dict[str, Any] = {}
        if cap is not None:
            new["cap"] = amounts.exact(cap, field="--cap")
        for name, text in (("cap_per_period", cap_per_period), ("cap_per_product", cap_per_product)):
            if text is not None:
                new[name] = exact_or_none(text, "--" + name.replace("_", "-"))
        for name, day in (("opens_on", opens_on), ("closes_on", closes_on)):
            if day is not None:
                new[name] = None if day == "none" else day
        if needs_approval is not None:
            new["needs_approval"] = needs_approval
        if approve_exact is not None:
            new["approve_exact"] = approve_exact
        if approvals is not None:
            new["approvals"] = approvals
        if approvals_for:
            new["approvals_by_product"] = _by_product(approvals_for)
        if not new:
            raise InputError("nothing is to be changed", where="ledger change", hint="give an option")
        changed = ledger.change_account(account, reason=reason, by=signer(key), **new)
        say(f"Account {account} is changed; its cap is {changed.cap}, and {changed.left} is left.")
    resume_waiting_runs(home)


@app.command("close", epilog='Example:  tabularium ledger close census --reason "replaced by census-2030"')
def close(
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    reason: Reason,
    home: HomePath = None,
) -> None:
    """Take no more charges from today on; releases that are paid for continue."""
    with open_ledger(home) as ledger:
        closed = ledger.close_account(account, reason=reason)
        say(f"Account {account} is closed since {closed.terms.closes_on}.")


@app.command(
    "retire", epilog='Example:  tabularium ledger retire census --reason "its unit is the household"'
)
def retire(
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    reason: Reason,
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Retire an account that was opened by mistake and never charged.

    Its name can be opened again, unless specs were approved for it.
    """
    with open_ledger(home) as ledger:
        ledger.retire_account(account, reason=reason, by=signer(key))
        again = f"tabularium ledger open {account} …{ledger.key_option()}"
        say(f"Account {account} is retired. To open it again: {again}")


@app.command("void", epilog='Example:  tabularium ledger void RELEASE --reason "wrong period"')
def void(
    release: Annotated[str, typer.Argument(help="Release id.")],
    reason: Reason,
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Give back the budget of a release for which no noise was drawn."""
    with open_ledger(home) as ledger, hold(ledger, release):
        ledger.void(release, reason, by=signer(key))
        say(f"Release {release} is voided; its budget is free again.")


@app.command("abandon", epilog='Example:  tabularium ledger abandon RELEASE --reason "measurement lost"')
def abandon(
    release: Annotated[str, typer.Argument(help="Release id.")],
    reason: Reason,
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Give up a release after drawing began; its budget stays spent for ever.

    Sign (--key) only if the release is measured and to be reviewed. A draft is withheld instead.
    """
    with open_ledger(home) as ledger, hold(ledger, release):
        ledger.abandon(release, reason, by=signer(key))
        say(f"Release {release} is abandoned; its budget stays spent.")


@app.command("allow-attempts", epilog='Example:  tabularium ledger allow-attempts RELEASE --reason "no room"')
def allow_attempts(
    release: Annotated[str, typer.Argument(help="Release id.")],
    reason: Reason,
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Allow three more attempts for a release whose drawing was interrupted three times.

    First find out what ends the runs: if it depends on the noise, each attempt can cost as much as the
    release.
    """
    with open_ledger(home) as ledger:
        allowed = ledger.allow_attempts(release, reason=reason, by=signer(key))
        say(f"The drawing of release {release} may begin {allowed} times in all.")
    resume_waiting_runs(home, release_id=release)
