"""The stages of the ledger: look up, reserve, close.

Nothing here draws noise. The amount charged is the whole budget of the spec, for one privacy unit, under the
account's definition: tables and levels share it by sequential composition, and the mechanisms run at ε/k, or
ρ/k², where a unit changes k records.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tabularium.ledger import Account, BudgetExhausted, Charge, Ledger, UnknownAccount
from tabularium.ledger.refusals import retired_account
from tabularium.mechanisms.errors import LedgerError
from tabularium.tasks.input_binding import (
    Claim,
    charging,
    require_bound,
    require_one_account,
    require_one_period,
)
from tabularium.tasks.publish.priors import certificates, require_published
from tabularium.tasks.published_heads import require_heads
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.redaction import bare_errors
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.problems import choose

if TYPE_CHECKING:
    from tabularium.tasks.ingest.open_source import InputHandle


@dataclass(frozen=True)
class ChargeHandle:
    """The charge of one release in the ledger.

    ``drawn`` says that its noise has been drawn and lies complete in the measurement store, so that
    nothing may be, and nothing needs to be, computed from the data again; ``drafted`` that all of it is laid
    out as a draft, which an officer accepts or withholds.
    """

    release_id: str
    state: str
    drawn: bool
    spec_digest: str
    drafted: bool = False


@dataclass(frozen=True)
class MeasuredHandle:
    """The durable measurement of a release: its attempt, and the digest in the ledger.

    ``measurements_from`` is the release in whose folder of the store it lies: this one, or an earlier one.
    """

    release_id: str
    fence: int
    digest: str
    measurements_from: str


def ledger_against_store(run: Run, *, tell: bool = False) -> Ledger:
    """Return the ledger, compared with the heads that measurements and the publication folder name.

    One that lacks such a head is an old copy and read-only, whatever became of its witness. Costs a glance at
    every file of the store, and at a small file for each release.

    ``tell``: whether to say which heads in the publication folder were passed over.
    """
    ledger = run.ledger
    ledger.expect(run.store.heads())
    _require_its_secret(run, ledger)
    require_heads(run, ledger, tell=tell)
    return ledger


def _require_its_secret(run: Run, ledger: Ledger) -> None:
    """Require the secret where the ledger has charges: under another secret they would be made again."""
    home = run.installation
    if not home.has_secret and any(ledger.charge_count(account.name) for account in ledger.accounts()):
        home.require_secret()


def check_account(run: Run) -> None:
    """Check, before any data is read, that the account exists and would accept a charge for the spec.

    Raises
    ------
    LedgerError
        If the account is missing or closed, differs in unit, population, relation or definition, or waits for
        an approval that nobody gave; or the ledger is read-only because it is older than a head that a
        measurement names.
    """
    spec, home = run.loaded.spec, run.installation
    ledger = ledger_against_store(run, tell=True)
    ledger.require_writable()
    account = _account(ledger, spec, home)
    for amount in (spec.privacy.budget, spec.tally_amount):
        if amount % account.terms.quantum:
            raise LedgerError(
                f"{amount} is no multiple of the account's quantum {account.terms.quantum}",
                where=f"account {spec.dataset}",
                hint="choose a budget that is, or open an account with another --quantum",
            )
    for name, theirs, ours in (
        ("unit", account.terms.unit, spec.privacy.protects),
        ("relation", account.terms.relation, spec.privacy.relation),
        ("definition", account.terms.definition, spec.privacy.definition),
        ("population", account.population, spec.privacy.unit.population or account.population),
    ):
        if theirs != ours:
            raise LedgerError(
                f"the account's {name} is {theirs!r}, the spec's is {ours!r}",
                where=f"account {spec.dataset}",
                hint="change privacy in the spec, or charge another account (dataset), which an officer "
                f"opens: {_opening(ledger, spec, 'NAME', account.population)}{home.option}",
            )
    _precheck(run, ledger)


@bare_errors
def _account(ledger: Ledger, spec: ReleaseSpec, home: Home) -> Account:
    try:
        account = ledger.account(spec.dataset)
        if account.retired:
            raise retired_account(account.name, ledger.key_option())
        return account
    except UnknownAccount:
        names = sorted(account.terms.name for account in ledger.accounts())
        known = choose(spec.dataset, names, "accounts") if names else "no account was opened here yet"
        raise UnknownAccount(
            f"no such account; {known}",
            where=f"account {spec.dataset} in {ledger.name}, home {home.path}",
            hint="check --home and TABULARIUM_HOME, or let a disclosure officer open it: "
            f"{_opening(ledger, spec, spec.dataset, None)}{home.option}",
        ) from None


def _opening(ledger: Ledger, spec: ReleaseSpec, name: str, population: str | None) -> str:
    """Return the command that opens an account for the spec."""
    privacy = spec.privacy
    words = f"tabularium ledger open {name} --cap {privacy.budget} --unit {shlex.quote(privacy.protects)}"
    if (named := privacy.unit.population or population) is not None:
        words += f" --population {shlex.quote(named)}"
    words += f" --relation {privacy.relation}"
    if privacy.definition == "zcdp":
        words += f" --definition zcdp --delta {privacy.delta}"
    return words + ledger.key_option()


def find_charge(run: Run) -> ChargeHandle:
    """Return the charge of this release; refuse early what the account could not pay. No data is needed.

    Raises
    ------
    LedgerError
        If the release was voided, abandoned or withheld, would revise nothing, or is new and costs more than
        is left, is to be reviewed where no officer has a key, or is to be drawn towards what was not
        published, or withdrawn.
    """
    loaded, name = run.loaded, run.release_id
    ledger = run.ledger
    charge = ledger.charge(name)
    if charge is None:
        _revises_something(ledger, loaded)
        _say_that_it_is_another(ledger, loaded.spec)
        require_published(loaded, ledger)
        _precheck(run, ledger)
        _affordable(ledger, loaded.spec)
        _reviewable(ledger, loaded.spec, run.installation)
        return ChargeHandle(name, "new", False, loaded.digest)
    if charge.state == "reserved":
        ledger.precheck_priors(certificates(loaded), charge)
    drafted = charge.state == "measured" and ledger.draft(name) is not None
    if charge.state in {"voided", "abandoned", "withheld"}:
        raise LedgerError(
            f"this release was {charge.state}",
            where=f"release {name}",
            hint="publish another period or spec, or a revision (--revises REASON), which is a new charge",
        )
    drawn = _drawn(run, charge)
    if charge.state == "drawing" and not drawn:
        run.ledger.precheck_drawing(name)
    return ChargeHandle(name, charge.state, drawn, loaded.digest, drafted)


@stage("look up in the ledger")
def look_up(run: Run) -> ChargeHandle:
    """Find the charge of this release, as ``find_charge``."""
    return find_charge(run)


def require_own_input(run: Run, charge: ChargeHandle, source: InputHandle) -> None:
    """Check that the input is the one of the charge.

    Raises
    ------
    LedgerError
        If its drawing began, and which input it draws from is not known.
    DataRefused
        If another input is bound to it, or another account, or another period of the product, was charged for
        this input.
    """
    home = run.installation
    drawing = charge.state == "drawing" and not charge.drawn
    bound = require_bound(home, charge.release_id, source.digest, drawing=drawing)
    if charge.drawn and not bound:
        note("which input this release was made from is no longer known: its binding is not in the home")
    if not charge.drawn:
        require_one_account(home, run.ledger, source.main, run.loaded.spec.dataset)
        require_one_period(home, run.ledger, _claim(run, charge.release_id), source.main)


def _claim(run: Run, release_id: str) -> Claim:
    spec = run.loaded.spec
    return Claim(release_id, spec.dataset, spec.product, spec.period, run.request.same_input)


def _say_that_it_is_another(ledger: Ledger, spec: ReleaseSpec) -> None:
    """Note that the period is published already, so that a changed spec is not paid for unawares."""
    known = ledger.published_in(spec.dataset, spec.product, spec.period)
    if known and spec.revises is None:
        note(
            f"{spec.product} {spec.period} is published already, from another spec (release "
            f"{known[-1].release_id}): this is one more release, which costs {spec.privacy.symbol} = "
            f"{spec.privacy.budget} again"
        )


def _revises_something(ledger: Ledger, loaded: Loaded) -> None:
    spec = loaded.spec
    if spec.revises is not None and not ledger.is_charged(spec.dataset, spec.product, spec.period):
        raise LedgerError(
            f"there is nothing to revise: nothing was charged for {spec.product}, {spec.period}",
            where=f"account {spec.dataset}",
            hint="leave out revises, or correct product, period or dataset",
        )


def _reviewable(ledger: Ledger, spec: ReleaseSpec, home: Home) -> None:
    """Refuse a release for review where too few officers have a key: it could never be published."""
    if spec.publication.review is None:
        return
    needed = ledger.account(spec.dataset).terms.approvals_for(spec.product)
    officers = {key.officer for key in ledger.keys().values() if key.active}
    if len(officers) >= needed:
        return
    have = f"{len(officers)} of the {needed} officers who must accept it have a key" if officers else ""
    raise LedgerError(
        f"the release is to be reviewed, and {have or 'no officer has a key'} in this ledger",
        where="publication.review",
        hint=f"let an officer enrol one: tabularium ledger keys new, then: keys enrol{home.option}",
    )


def _affordable(ledger: Ledger, spec: ReleaseSpec) -> None:
    """Refuse before counting what the ledger would refuse after it; the ledger stays the only judge."""
    left = ledger.balance(spec.dataset)
    if spec.measurements_of is None and left < spec.main_amount:
        raise BudgetExhausted(
            f"the release costs {spec.main_amount} and {left} is left",
            where=f"account {spec.dataset}",
            hint="lower privacy.budget in the spec, or ask the disclosure officer",
        )


def _precheck(run: Run, ledger: Ledger) -> None:
    spec = run.loaded.spec
    if spec.measurements_of is None:
        ledger.precheck(spec.dataset, amount=spec.privacy.budget, **_charged_for(run))
    else:
        ledger.precheck_remake(
            spec.dataset,
            release_id=run.release_id,
            measurements_of=spec.measurements_of,
            **revision_of(run),
        )


def revision_of(run: Run) -> dict[str, Any]:
    """Return the purpose of a charge, for the ledger's check before it, whether or not it costs anything."""
    spec = run.loaded.spec
    return {
        "product": spec.product,
        "period": spec.period,
        "spec_digest": run.loaded.digest,
        "revises": spec.revises,
        "exact": run.has_exact_facts,
    }


def _charged_for(run: Run) -> dict[str, Any]:
    """Return the purpose of a charge, for the ledger's check before it and the charge itself."""
    spec = run.loaded.spec
    return {
        **revision_of(run),
        "unit": spec.privacy.protects,
        "relation": spec.privacy.relation,
        "definition": spec.privacy.definition,
        "population": spec.privacy.unit.population,
    }


def _drawn(run: Run, charge: Charge) -> bool:
    """Whether the store has a complete measurement of this release, recorded or not."""
    if charge.state in {"measured", "published"}:
        return True
    return charge.state == "drawing" and run.store.complete(charge.release_id, charge.fence) is not None


@stage("reserve budget")
def reserve(run: Run, charge: ChargeHandle, source: InputHandle) -> str:
    """Reserve the budget of the release and bind it to its input; idempotent."""
    with ledger_against_store(run) as ledger:
        reserve_for(run, ledger, source, charge.release_id, run.loaded.spec.main_amount)
    return charge.release_id


def reserve_for(run: Run, ledger: Ledger, source: InputHandle, name: str, amount: Fraction) -> Charge:
    """Reserve ``amount`` under a name, which is bound to one input from then on.

    Raises
    ------
    DataRefused
        If the name is bound to another input, or another account, or another period of the product, was
        charged for this one.
    """
    spec = run.loaded.spec
    with charging(run.installation, ledger, _claim(run, name), source.digest, source.main):
        return ledger.reserve(
            spec.dataset,
            release_id=name,
            amount=amount,
            review=spec.publication.review is not None,
            priors=certificates(run.loaded),
            **_charged_for(run),
        )


@stage("close the charge")
def close(
    run: Run,
    measured: MeasuredHandle,
    certificate: str,
    statement: str | None = None,
    signed_by: str | None = None,
) -> None:
    """Write ``published`` with the digests of certificate and statement; idempotent."""
    with run.ledger as ledger:
        ledger.published(
            *(measured.release_id, measured.fence),
            digest=certificate,
            statement=statement,
            signed_by=signed_by,
        )
