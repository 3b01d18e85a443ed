"""Open decisions of people: approvals, drafts, attempts, refused deliveries, and what is overdue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from pandas import DataFrame

from tabularium.mechanisms.errors import TabulariumError

if TYPE_CHECKING:
    from tabularium.flows.operations.reporting.overdue import Overdue
    from tabularium.flows.operations.waiting import WaitingRun
    from tabularium.ledger import Charge, Ledger
    from tabularium.tasks.runtime.home import Home

_SEEN_BY_PREFECT = "runs that wait for an approval, and what is overdue, are not listed"


class Waiting(DataFrame):
    """Rows as :class:`Waits` has them, the oldest first, and what could not be looked at."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """A sentence for each source that did not answer, whose rows are therefore not there."""
        names: tuple[str, ...] = self.attrs["unknown"]
        return names


@dataclass(frozen=True)
class Waits:
    """One thing that waits for a person.

    A release that waits for an officer, or whose delivery was refused, is not also listed as overdue.

    Attributes
    ----------
    kind
        ``approval`` of a spec for which a run waits; ``review`` of a draft, until it is published;
        ``attempts``: a release whose
        drawing was cut off as often as it may; ``refused``: a delivery into a watched folder; ``overdue``:
        what a schedule should have published, or data that should have arrived.
    account, amount
        What pays, and what it costs; empty and None where that is not known here.
    product, period
        The period is empty of a delivery whose manifest was refused.
    digest
        Of the spec (``approval``), of the draft (``review``), otherwise empty.
    since
        UTC.
    command
        What to type; empty where nothing is to be typed.
    asks
        Who waits: ``run NAME`` or ``deployment NAME`` as Prefect knows them; empty where that is not known.
    about
        What happened, in a few words: ``not approved`` (also, that the account cannot pay for it), ``draft``,
        ``accepted, not published``, ``drawing was cut off 3 times``, ``not published``, ``no data have
        arrived``, or the kind of the refusal, such as ``refused: data``.
    next
        What happens next, as one sentence.
    release
        Of a draft, or of a release that is being drawn; otherwise empty.
    spec, revises, measurements_of
        Of a spec as it is to be approved, where its file is here and has not changed; otherwise empty.
    officers, signed
        How many different officers must approve or accept, and who has; 0 of other kinds.
    """

    kind: Literal["approval", "review", "attempts", "refused", "overdue"]
    account: str
    product: str
    period: str
    amount: Fraction | None
    digest: str
    since: datetime
    command: str
    asks: str
    about: str
    next: str
    release: str = ""
    spec: str = ""
    revises: str = ""
    measurements_of: str = ""
    officers: int = 0
    signed: tuple[str, ...] = ()


def waiting(ledger: Ledger, home: Home | None) -> tuple[list[Waits], tuple[str, ...]]:
    """Return what waits for a person, the oldest first, and a sentence for each source that is away.

    Parameters
    ----------
    home
        Of the installation; None for an export, which holds only its ledger.
    """
    if home is None:
        rows = list(_decisions(ledger, None, []))
        unknown = [f"An export tells only of its ledger: {_SEEN_BY_PREFECT}, nor are deliveries."]
    else:
        runs, overdue, unknown = _of_prefect(home)
        rows = list(_decisions(ledger, home, runs))
        drawing = {(row.product, row.period) for row in rows if row.kind == "attempts"}
        rows += (
            _approval(ledger, home, run)
            for run in runs
            if run.unapproved and (run.product, run.period) not in drawing
        )
        try:
            rows += _deliveries(ledger, home)
        except TabulariumError as error:
            unknown.append(f"Refused deliveries are not listed: {error.what}.")
        other = {(row.product, row.period) for row in rows}
        rows += (row for row in overdue if (row.product, row.period) not in other)
    return sorted(rows, key=lambda row: row.since), tuple(unknown)


def _decisions(ledger: Ledger, home: Home | None, runs: list[WaitingRun]) -> Iterator[Waits]:
    """Go through the drafts to be reviewed, and the releases whose attempts to draw are used up."""
    option = "" if home is None else home.option
    asking = {run.spec_digest: f"run {run.name}" for run in runs}
    for account in ledger.accounts():
        for charge in ledger.all_charges(account.name):
            name = charge.release_id
            paid = account.name, charge.product, charge.period, charge.amount
            asks = asking.get(charge.spec_digest, "")
            if charge.state == "measured":
                draft = ledger.draft(charge.release_id)
                if draft is not None and not (draft.accepted and _at_work(ledger, charge)):
                    since = datetime.fromisoformat(draft.at)
                    command = f"tabularium ledger accept {charge.release_id} --key FILE{option}"
                    about = "draft"
                    then = (
                        "Once it is accepted, it is published as it is; withheld, it never is. "
                        "Until somebody decides, it stays a draft."
                    )
                    if draft.accepted:  # what was to publish it was cut off, or had no room
                        about = "accepted, not published"
                        then = "Its run publishes it; where none does, this command does, and signs nothing."
                    signed = tuple(acceptance.officer for acceptance in draft.acceptances)
                    yield Waits(
                        "review",
                        *paid,
                        draft.digest,
                        since,
                        command,
                        asks,
                        about,
                        then,
                        name,
                        "",
                        "",
                        "",
                        draft.needed,
                        signed,
                    )
            elif ledger.attempts_used_up(charge) and not _at_work(ledger, charge):
                key = ledger.key_option(account.name)
                command = f'tabularium ledger allow-attempts {charge.release_id} --reason "…"{key}{option}'
                cut_off = f"drawing was cut off {charge.attempts} times"
                then = "Find out what ends its runs; once more attempts are allowed, it is drawn again."
                since = datetime.fromisoformat(charge.changed_at)
                yield Waits("attempts", *paid, "", since, command, asks, cut_off, then, name)


def _at_work(ledger: Ledger, charge: Charge) -> bool:
    """Whether the last attempt that is allowed is under way."""
    from tabularium.ledger.measurement.release_lock import hold
    from tabularium.ledger.refusals import LockTimeout, StorageFailed

    try:
        with suppress(StorageFailed), hold(ledger, charge.release_id):
            pass
    except LockTimeout:
        return True
    return False


def _approval(ledger: Ledger, home: Home, run: WaitingRun) -> Waits:
    from tabularium._officer import Decision, approved_by
    from tabularium.flows.operations.waiting import approving
    from tabularium.tasks.runtime.run import Request, load

    account, amount = "", None
    request = Request(
        *(run.spec, None, run.period or None, str(home.path), run.revises),
        measurements_of=run.measurements_of,
    )
    with suppress(TabulariumError, OSError):
        loaded = load(request)
        account, amount = loaded.spec.dataset, loaded.spec.privacy.budget
        if loaded.digest != run.spec_digest:  # the file was changed since: this run waits for what it was
            amount = None
    command = approving(request)
    if amount is None:
        command = (
            f"tabularium ledger approve {run.spec_digest} --account {account or 'ACCOUNT'}"
            f" --product {run.product} --key FILE"
            f"{home.option}  # {run.spec} has changed since, or cannot be read here"
        )
    looked_at = ("",) * 3 if amount is None else (run.spec, run.revises or "", run.measurements_of or "")
    known = next((entry for entry in ledger.accounts() if entry.name == account), None)
    officers = 1 if known is None else known.terms.approvals_for(run.product)
    decision = None if known is None or amount is None else Decision.of(ledger, loaded, known)
    cost = amount if decision is None else decision.cost
    what, then = "not approved", "Once its spec is approved, the run goes on by itself."
    if decision is not None and not decision.can_be_paid:
        what += ", and the account cannot pay for it"
        then = "Once its spec is approved, the run is refused, unless the account can pay by then."
    if run.until is not None:
        then += f" If nobody approves it, the run fails on {run.until:%Y-%m-%d}, and nothing is spent."
    signed = () if known is None else approved_by(ledger, known, run.spec_digest, run.product, amount)
    about = account, run.product, run.period, cost, run.spec_digest, run.since, command
    asks = f"run {run.name}"
    return Waits("approval", *about, asks, what, then, "", *looked_at, officers, signed)


def _of_prefect(home: Home) -> tuple[list[WaitingRun], list[Waits], list[str]]:
    """Return the runs that wait for an officer, what is overdue, and why either is not known."""
    from tabularium.flows.operations.prefect_api import asking_once, configured_url
    from tabularium.flows.operations.server_address import written_address

    if configured_url() is None and written_address(home) is None:
        return [], [], [f"No Prefect API is known here: {_SEEN_BY_PREFECT}."]
    from tabularium.flows.operations.reporting.overdue import overdue
    from tabularium.flows.operations.waiting import waiting_runs

    try:
        with asking_once(home) as client:
            runs = waiting_runs(client)
            late = overdue(client, home, datetime.now(UTC))
    except TabulariumError:
        return [], [], [f"Prefect does not answer: {_SEEN_BY_PREFECT}."]
    return runs, [_overdue(release) for release in late], []


def _overdue(late: Overdue) -> Waits:
    about, then = (
        "not published",
        "Why stands in the state of its run, in Prefect's UI; it is reported again each day.",
    )
    if late.inbox:
        about, then = (
            "no data have arrived",
            f"Ask who delivers into {late.inbox}; it is reported again each day.",
        )
    since, asks = late.since.astimezone(UTC), f"deployment {late.product}"
    return Waits("overdue", "", late.product, late.period, None, "", since, "", asks, about, then)


def _deliveries(ledger: Ledger, home: Home) -> list[Waits]:
    """Return the deliveries that were refused, and whose period was not published since."""
    from tabularium.tasks.arrival.drop_outcomes import refused_drops

    refused = refused_drops(home)
    if not refused:
        return []
    published = {
        (charge.product, charge.period, charge.changed_at)
        for account in ledger.accounts()
        for charge in ledger.all_charges(account.name)
        if charge.state == "published"
    }
    return [
        Waits(
            "refused", "", release.product, release.period, None, "", release.since, release.command,
            release.run and f"run {release.run}", release.refusal, release.then,
        )
        for release in refused
        if not any(
            (product, period) == (release.product, release.period)
            and datetime.fromisoformat(at) > release.since
            for product, period, at in published
        )
    ]  # fmt: skip
