"""Verifying the chain: which step a charge may take, what it may change, which sums and caps must hold."""

from __future__ import annotations

from ledger import composition
from ledger.chain.entry_records import ChargeStep, InParallel, Voiding
from ledger.chain.verify_officers import may_void
from ledger.chain.verify_state import AccountState, LedgerState, OpenCharge, Sum, broken
from ledger.records import FINAL, STEPS, change


def take_step(state: LedgerState, entry: ChargeStep) -> None:
    """Check one step of a charge against everything before it, then take it.

    Raises
    ------
    ChainBroken
        Naming the entry and the rule that it breaks.
    """
    account = state.account(entry.seq, entry.account)
    if isinstance(entry, Voiding):
        may_void(state, entry)
    before, content = _follows_its_last_step(state, entry), _content(entry)
    _sets_only_what_its_step_may(entry, before, content)
    amount = _amount(account, entry) if before is None else before.amount
    _move(account, entry, change(entry.kind, before.state if before else None, amount))
    _states_its_sums(account, entry)
    if before is None:
        _is_charged_while_open(account, entry)
        _is_approved(state, account, entry, amount)
        _keeps_to_the_caps(account, entry)
    _counts_its_input(state, entry)
    state.charges[entry.release_id] = (
        None
        if entry.kind in FINAL
        else OpenCharge(entry.kind, entry.fence, entry.measurement_digest, amount, content)
    )


def _follows_its_last_step(state: LedgerState, entry: ChargeStep) -> OpenCharge | None:
    """Return the charge before this step; ``None`` if this one reserves it."""
    before = state.charges.get(entry.release_id)
    if before is None and entry.release_id in state.charges:
        broken(entry.seq, "takes a step after the charge's last")
    if (before.state if before else None) not in STEPS[entry.kind]:
        broken(entry.seq, "takes a step that its charge's state does not allow")
    return before


def _sets_only_what_its_step_may(
    entry: ChargeStep, before: OpenCharge | None, content: tuple[object, ...]
) -> None:
    """Most fields of a charge never change; each of the others is set by one step alone."""
    if before is None:
        kept = entry.fence == 0 and entry.reserved_at == entry.at and entry.measurement_digest is None
    else:
        kept = content == before.content and entry.fence == before.fence + (entry.kind == "drawing")
        if entry.kind == "measured":
            kept = kept and entry.measurement_digest is not None
        else:
            kept = kept and entry.measurement_digest == before.measurement
    published = entry.publication_digest is not None
    explained = entry.reason is not None
    if (
        not kept
        or published != (entry.kind == "published")
        or explained != (entry.kind in ("voided", "abandoned"))
    ):
        broken(entry.seq, "changes what its step may not change")


def _amount(account: AccountState, entry: ChargeStep) -> int:
    amount = account.quanta(entry.amount)
    if amount is None:
        broken(entry.seq, "charges an amount that is no multiple of its account's quantum")
    return amount


def _move(account: AccountState, entry: ChargeStep, added: tuple[int, int]) -> None:
    """Add what the step changes of (reserved, spent) to every sum that the charge counts in."""
    inside, bound = added, False
    if entry.in_parallel is not None:
        _fits_its_group(account, entry, entry.in_parallel)
        inside = _move_part(account, entry.in_parallel, added)
        bound = composition.period_of(entry.in_parallel.group) is not None
    account.total.add(*inside)
    account.periods[entry.period].add(*(inside if bound else added))
    account.products[entry.product].add(*added)


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


def _states_its_sums(account: AccountState, entry: ChargeStep) -> None:
    """The entry repeats every sum that its charge counts in, as it is after the step."""
    period, product = account.periods[entry.period], account.products[entry.product]
    parallel = entry.in_parallel
    if parallel is not None:
        part = Sum(*account.groups[parallel.group][1][parallel.part])
        if not account.reads(part, parallel.part_reserved, parallel.part_spent):
            broken(entry.seq, "has a wrong running sum of its part")
    if not account.reads(account.total, entry.account_reserved, entry.account_spent):
        broken(entry.seq, "has a wrong running sum of its account")
    if not account.reads(period, entry.period_reserved, entry.period_spent):
        broken(entry.seq, "has a wrong running sum of its period")
    if not account.reads(product, entry.product_reserved, entry.product_spent):
        broken(entry.seq, "has a wrong running sum of its product")


def _is_charged_while_open(account: AccountState, entry: ChargeStep) -> None:
    if not account.terms.open_on(entry.at[:10]):
        broken(entry.seq, "charges an account that is not open at that time")


def _is_approved(state: LedgerState, account: AccountState, entry: ChargeStep, amount: int) -> None:
    """Where approvals are needed, the spec's last decision approves the amount, by a key still enrolled."""
    if not account.terms.needs_approval:
        return
    last = state.decisions.get((entry.account, entry.spec_digest))
    if (
        last is None
        or not last.approved
        or state.active_key(last.by) is None
        or (last.amount is not None and amount > last.amount)
    ):
        broken(entry.seq, "charges for a spec that no officer has approved")


def _keeps_to_the_caps(account: AccountState, entry: ChargeStep) -> None:
    scopes = {
        "account": (account.total, account.cap),
        "period": (account.periods[entry.period], account.cap_per_period),
        "product": (account.products[entry.product], account.cap_per_product),
    }
    for scope, (used, cap) in scopes.items():
        if not used.within(cap):
            broken(entry.seq, f"passes the cap of its {scope}")


def _counts_its_input(state: LedgerState, entry: ChargeStep) -> None:
    """One input is charged to one account, or each account's cap would hold for a share of it only."""
    named, change_of_count = entry.input_digest, {"reserved": 1, "voided": -1}.get(entry.kind)
    if named is None or change_of_count is None:
        return
    owner, charges = state.inputs.get(named, (entry.account, 0))
    if charges and owner != entry.account:
        broken(entry.seq, "charges an input that another account has been charged for")
    state.inputs[named] = (entry.account, charges + change_of_count)


def _content(entry: ChargeStep) -> tuple[object, ...]:
    """Return what never changes about a charge."""
    parallel = entry.in_parallel
    return (
        *(entry.account, entry.amount, entry.input_digest, entry.period, entry.product),
        *(entry.reserved_at, entry.spec_digest),
        *((parallel.group, parallel.part, parallel.contributions) if parallel else ()),
    )
