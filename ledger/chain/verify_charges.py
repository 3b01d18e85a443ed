"""Verifying the chain: which step a charge may take, what it may change, which sums and caps must hold."""

from __future__ import annotations

from operator import attrgetter

from tabularium.ledger import amounts, composition
from tabularium.ledger.chain.verify_officers import may_end, may_withhold
from tabularium.ledger.chain.verify_state import (
    AccountState,
    LedgerState,
    Measurement,
    OpenCharge,
    Review,
    Sum,
    broken,
)
from tabularium.ledger.events import FIXED, Abandoning, ChargeStep, InParallel, Remade, Withholding
from tabularium.ledger.records import ATTEMPTS, FINAL, STEPS, change, state_after


def take_step(state: LedgerState, entry: ChargeStep) -> None:
    """Check one step of a charge against everything before it, then take it.

    Raises
    ------
    ChainBroken
        Naming the entry and the rule that it breaks.
    """
    account = state.account(entry.seq, entry.account)
    if isinstance(entry, Abandoning):
        may_end(state, entry)
    if isinstance(entry, Withholding):
        may_withhold(state, entry)
    before = state.charges.get(entry.release_id)
    if before is None and entry.release_id in state.charges:
        broken(entry.seq, "takes a step after the charge's last")
    may_follow(entry, before, None if entry.remade is None else _source(state, entry.remade))
    _is_as_reviewed(state, entry, before)
    amount, sums = add_up(account, entry, before)
    if before is None:
        may_begin(account, entry, sums)
        wants_approval = account.terms.wants_approval(
            product=entry.product, exact=entry.exact, revises=entry.revises
        )
        if wants_approval or _another_is_open(state, entry):
            _require_approved(state, entry, account.terms.approvals_for(entry.product))
    allowed = ATTEMPTS if before is None else before.allowed
    if entry.remade is None and entry.fence > allowed:
        broken(entry.seq, "begins to draw more often than is allowed")
    review = before.review if before is not None else _review_of(state, entry)
    after = state_after(entry.kind)
    review.steps.add(after)
    charge = OpenCharge(
        *(after, entry.fence, entry.measurement_digest, amount, content(entry), entry.product, allowed),
        review=review,
    )
    state.charges[entry.release_id] = None if entry.kind in FINAL else charge
    if entry.kind == "published":
        state.published[entry.release_id] = account.terms.name
        if entry.remade is None:
            state.measurements[entry.release_id] = Measurement(
                entry.account, entry.product, entry.period, entry.fence, entry.measurement_digest
            )


def _source(state: LedgerState, remade: Remade) -> Measurement | None:
    """Return what a release is made from, if it was published."""
    return state.measurements.get(remade.measurements_of)


def may_follow(entry: ChargeStep, before: OpenCharge | None, source: Measurement | None) -> None:
    """Most fields of a charge never change; each of the others is set by one step alone.

    Parameters
    ----------
    before
        The charge before this step; ``None`` if it begins with this one.
    source
        What a release is made from that has no measurements of its own.
    """
    step = entry.kind
    if (before.state if before else None) not in STEPS[step]:
        broken(entry.seq, "takes a step that its charge's state does not allow")
    known = before or _unborn(entry, source)
    right = {
        "reserved_at": STEPS[step] != (None,) or entry.reserved_at == entry.at,
        "fence": entry.fence == known.fence + (step == "drawing"),
        "measurement_digest": entry.measurement_digest is not None
        if step == "measured"
        else entry.measurement_digest == known.measurement,
        "statement": entry.statement is None or step == "published",
        "publication_digest": (entry.publication_digest is not None) == (step == "published"),
        "reason": (entry.reason is not None) == (step in ("voided", "abandoned")),
        "what it is for": content(entry) == known.content,
    }
    if not all(right.values()):
        wrong = ", ".join(name for name, is_right in right.items() if not is_right)
        broken(entry.seq, f"changes what its step may not change: {wrong}")


def _unborn(entry: ChargeStep, source: Measurement | None) -> OpenCharge:
    """Return a charge before its first step: what is remade has the measurement of a published release."""
    if entry.remade is None:
        return OpenCharge("", 0, None, 0, content(entry))
    if source is None or (source.account, source.product, source.period) != (
        *(entry.account, entry.product, entry.period),
    ):
        broken(entry.seq, "is made from measurements of what was not published for its product and period")
    return OpenCharge("", source.fence, source.digest, 0, content(entry))


def add_up(account: AccountState, entry: ChargeStep, before: OpenCharge | None) -> tuple[int, dict[str, Sum]]:
    """Add a step to every sum that its charge counts in, which it must repeat; return its amount and them."""
    amount = account.quanta(entry.seq, entry.amount) if before is None else before.amount
    sums = {
        "account": account.total,
        "period": account.periods[entry.period],
        "product": account.products[entry.product],
    }
    _move(account, entry, sums, change(entry.kind, before.state if before else None, amount))
    _states_its_sums(account, entry, sums)
    return amount, sums


def may_begin(account: AccountState, entry: ChargeStep, sums: dict[str, Sum]) -> None:
    """What costs something begins while its account is open, and passes no cap."""
    if entry.remade is not None:
        return
    if not account.terms.open_on(entry.at[:10]):
        broken(entry.seq, "charges an account that is not open at that time")
    passed = account.passed(sums)
    if passed is not None:
        broken(entry.seq, f"passes the cap of its {passed}")


def _review_of(state: LedgerState, entry: ChargeStep) -> Review:
    """Return what its spec's charges share, if they are to be reviewed."""
    if not entry.review:
        return Review()
    specs = state.reviews[entry.account, entry.product, entry.period]
    return specs.setdefault(entry.spec_digest, Review())


def _another_is_open(state: LedgerState, entry: ChargeStep) -> bool:
    """Whether another spec of the product and period was to be reviewed, drawn, and not published."""
    specs = state.reviews.get((entry.account, entry.product, entry.period), {})
    return any(review.open for spec, review in specs.items() if spec != entry.spec_digest)


def _is_as_reviewed(state: LedgerState, entry: ChargeStep, before: OpenCharge | None) -> None:
    """What is to be reviewed is published as it was accepted, or withheld by an officer."""
    if before is None or entry.kind == "withheld":
        return
    if entry.review and before.draft is None:
        if entry.kind == "published" and entry.publication_digest not in before.review.accepted:
            broken(entry.seq, "publishes what no officer has accepted")
        undecided = [name for name in before.review.drafts if state.charges[name] is not None]
        if entry.kind in ("voided", "abandoned") and undecided:
            broken(entry.seq, "gives up what belongs to a draft")
    if before.draft is None:
        return
    if entry.kind != "published" or not before.accepted:
        broken(entry.seq, "ends a draft without an officer's decision")
    if entry.publication_digest != before.draft:
        broken(entry.seq, "publishes something else than the draft that was accepted")


def _move(account: AccountState, entry: ChargeStep, sums: dict[str, Sum], added: tuple[int, int]) -> None:
    """Add what the step changes of (reserved, spent) to every sum that the charge counts in."""
    inside, bound = added, False
    if entry.in_parallel is not None:
        _fits_its_group(account, entry, entry.in_parallel)
        inside = _move_part(account, entry.in_parallel, added)
        bound = composition.period_of(entry.in_parallel.group) is not None
    sums["account"].add(*inside)
    sums["period"].add(*(inside if bound else added))
    sums["product"].add(*added)


def _fits_its_group(account: AccountState, entry: ChargeStep, parallel: InParallel) -> None:
    """Parts of a group share one period (unless the privacy unit has its own) and one bound."""
    wanted = None if composition.per_period(account.terms.unit) else entry.period
    if composition.period_of(parallel.group) != wanted:
        broken(entry.seq, "composes in parallel over periods")
    contributions, _parts = account.groups.setdefault(parallel.group, (parallel.contributions, {}))
    if parallel.contributions != contributions:
        broken(entry.seq, "has another bound on contributions than its group")


def _move_part(account: AccountState, parallel: InParallel, added: tuple[int, int]) -> tuple[int, int]:
    """Add to one part of a group; return what that changes of the cost of the whole group."""
    if added == (0, 0):
        return added
    contributions, parts = account.groups[parallel.group]
    fold = composition.folds(contributions, account.terms.relation)
    inside = composition.group_change(parts, parallel.part, added, fold)
    reserved, spent = parts.get(parallel.part, (0, 0))
    parts[parallel.part] = reserved + added[0], spent + added[1]
    return inside


def _states_its_sums(account: AccountState, entry: ChargeStep, sums: dict[str, Sum]) -> None:
    """The entry repeats every sum that its charge counts in, as it is after the step."""
    parallel = entry.in_parallel
    if parallel is not None:
        part = Sum(*account.groups[parallel.group][1][parallel.part])
        if not account.reads(part, parallel.part_reserved, parallel.part_spent):
            broken(entry.seq, "has a wrong running sum of its part")
    for scope, found in sums.items():
        if not account.reads(found, getattr(entry, f"{scope}_reserved"), getattr(entry, f"{scope}_spent")):
            broken(entry.seq, f"has a wrong running sum of its {scope}")


def _require_approved(state: LedgerState, entry: ChargeStep, needed: int) -> None:
    """The spec's last decision approves the amount, and so many officers by keys that are still enrolled.

    Where one officer suffices, it is the one of the last decision.
    """
    about = entry.account, entry.spec_digest
    last = state.decisions.get(about)
    if last is None or last.kind != "approval":
        broken(entry.seq, "charges for a spec that no officer has approved")
    if last.amount is not None and amounts.from_text(entry.amount) > amounts.from_text(last.amount):
        broken(entry.seq, "charges more than was approved for its spec")
    signed_by = state.approvals[about] if needed > 1 else [last.signed.by]
    if len(state.officers_of(signed_by)) < needed:
        fewer = "fewer officers than must have" if needed > 1 else "no officer has"
        broken(entry.seq, f"charges for a spec that {fewer} approved")


#: Where an event has the fields :data:`tabularium.ledger.events.FIXED`, which never change about a charge.
_PLAIN = attrgetter(*(name for name in FIXED if name in ChargeStep.model_fields))
_PARALLEL = attrgetter(*(name for name in FIXED if name in InParallel.model_fields))


def content(entry: ChargeStep) -> tuple[object, ...]:
    """Return what never changes about a charge; its account comes first."""
    parallel = entry.in_parallel
    return (*_PLAIN(entry), entry.remade, *(_PARALLEL(parallel) if parallel else ()))
