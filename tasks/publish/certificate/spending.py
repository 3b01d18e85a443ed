"""The budget in a certificate: its parts, their composition, conversions of ε, δ and ρ, and the account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, Literal, cast

from pydantic import JsonValue

from tabularium.ledger import Terms, Usage, Withheld
from tabularium.ledger.records import Approved, Reservation
from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import Event, spent
from tabularium.mechanisms.accounting.transcript import CHOOSING, GAUSSIANS
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.tasks.publish.certificate.software import audits
from tabularium.tasks.publish.guarantee import settled_beforehand
from tabularium.tasks.published_heads import StampedHead
from tabularium.validations import certificate as schema
from tabularium.validations.certificate.value_kinds import Definition, Relation
from tabularium.validations.release_spec.checks.table_checks import MECHANISM
from tabularium.validations.release_spec.exact_facts import exact_facts
from tabularium.validations.release_spec.model import ReleaseSpec


@dataclass(frozen=True)
class Outcome:
    """The outcome of a tally's draw: its noisy number, and the rules that it breaks."""

    number: int
    broken: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a release folder, without its certificate.

    Attributes
    ----------
    events
        Of the noise channel, in the order of the tables.
    files
        Name -> plain SHA-256; public files only.
    agreement
        How several tables were made to agree, step by step; empty for one.
    conflicts
        Invariant -> how it and the measurements go together.
    tallies
        Of each tally of the spec, in their order.
    """

    tables: dict[str, schema.Table]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, JsonValue]
    conflicts: dict[str, dict[str, int]]
    tallies: list[Outcome]


@dataclass(frozen=True)
class Charged:
    """The charge of a release and its account.

    Attributes
    ----------
    population
        To which the protected units belong, as the account says.
    attempts
        How many times drawing began.
    deltas
        At which ε is reported under zcdp: the spec's, and the account's, which may be another.
    tried
        Number, release id and attempts of every charge that was made for tallies, each for another input.
    withheld
        The drafts of the account that officers withheld before, with what each cost.
    reservation
        How the account stood when the main charge was reserved, and who had approved the spec.
    """

    population: str
    attempts: int
    head: StampedHead
    deltas: list[Fraction]
    tried: list[tuple[int, str, int]]
    withheld: list[Withheld]
    reservation: Reservation


@dataclass(frozen=True)
class Stated:
    """Fields of a certificate that follow from nothing else in it.

    Attributes
    ----------
    created
        When it was made, UTC.
    numbers
        Invariant -> how many numbers it has.
    lookups
        Public look-up -> its digest.
    """

    release_id: str
    created: str
    measurements: str
    software: dict[str, str]
    code: schema.Code
    postprocessing: int
    workspace_kept: bool
    numbers: dict[str, int]
    lookups: dict[str, str]


_Kind = Literal["tally", "table", "measure", "histogram"]
_SUMS = (
    "Tallies, tables, levels and histograms see the same records one after the other: what they cost is "
    "added (sequential composition; exact for ε and for ρ).",
    "Draws inside one scope of disjoint cells count as the most expensive of its branches: a record is in "
    "one cell of a table. The evidence is in the transcript, where `branches` names scope and branch of "
    "every draw; the noise channel gave each branch its cells, and refuses a cell that another branch has.",
    "One unit changes at most `changed_records` records, k; what it loses follows by group privacy: k "
    "times the ε of a record, or k² times the ρ.",
    "Releases of one account are added too, whatever their periods: no composition in parallel over releases "
    "is claimed here.",
)


def budgets(spec: ReleaseSpec) -> dict[str, Fraction]:
    """Return the budget of each measurement for one record, by its name in the transcript."""
    losses = {f"{name}/{level}" if level else name: loss for (name, level), loss in spec.losses.items()}
    return losses | {tally.purpose: spec.privacy.record_budget * tally.share for tally in spec.tallies}


def by_measurement(spec: ReleaseSpec, events: Iterable[Event]) -> dict[str, list[Event]]:
    """Return the draws of each measurement of a spec; ``""`` has the draws of no measurement."""
    events_of: dict[str, list[Event]] = {purpose: [] for purpose in (*budgets(spec), "")}
    for event in events:
        events_of[next((name for name in events_of if name and _is_for(event.purpose, name)), "")].append(
            event
        )
    return events_of


def _is_for(named: str, purpose: str) -> bool:
    return f"{named.removeprefix('error of ')}/".startswith(f"{purpose}/")


def conversion(spec: ReleaseSpec) -> schema.Conversion:
    """Return which of ε, δ and ρ is exact, and how the others follow from it."""
    privacy = spec.privacy
    if privacy.definition == "pure":
        return schema.Conversion(
            exact="epsilon",
            delta="0",
            rho=privacy.budget**2 / 2,
            words="ε is exact and δ is 0. ε-DP is ρ-zCDP with ρ = ε²/2 (Bun and Steinke 2016, Proposition "
            "1.4), exact as it stands here.",
        )
    settled = settled_beforehand(spec)
    words = (
        "ρ is exact. It gives (ε, δ) with the least ε that is found over all α > 1 in Proposition 12 of "
        "Canonne, Kamath and Steinke 2020; each α gives a valid one, and ρ and δ are rounded to the safe "
        "side."
    )
    if settled:
        words += (
            " Every draw was settled before the first, so the privacy loss distributions of the draws were "
            "composed as well (dp-accounting, rounded pessimistically), and the smaller ε is stated."
        )
    return schema.Conversion(exact="rho", draws_settled_beforehand=settled, words=words)


def allocation(spec: ReleaseSpec) -> tuple[schema.BudgetPart, ...]:
    """Return the parts of the budget in the order of drawing; their shares add up to exactly 1."""
    record = spec.privacy.record_budget
    parts: list[tuple[_Kind, str, str | None, Fraction, Fraction]] = [
        ("tally", tally.of, None, record * tally.share, Fraction(0)) for tally in spec.tallies
    ]
    margins = {table.name: table.margin_share or Fraction(0) for table in spec.tables}
    parts += [
        (
            "table" if name in margins else "measure" if "-" in name else "histogram",
            name,
            level or None,
            loss,
            margins.get(name, Fraction(0)),
        )
        for (name, level), loss in spec.losses.items()
    ]
    return tuple(
        schema.BudgetPart(
            kind=kind,
            name=name,
            level=level,
            share=loss / record,
            per_unit=spec.privacy.budget * loss / record,
            per_record=loss,
            of_it_for_margins=margin,
        )
        for kind, name, level, loss, margin in parts
    )


def composition(spec: ReleaseSpec, events: list[Event]) -> schema.Composition:
    """Return the composition rules of the draws, and the scopes of disjoint cells."""
    parallel = []
    for purpose, draws in by_measurement(spec, events).items():
        branches = {branch: event.alike for event in draws for branch in event.branches}
        if branches:
            scopes, number = len({scope for scope, _ in branches}), sum(branches.values())
            parallel.append(schema.Parallel(measurement=purpose, scopes=scopes, branches=number))
    return schema.Composition(
        rule="sequential",
        changed_records=spec.privacy.changed_records,
        parallel=tuple(parallel),
        across_releases="sequential",
        words=_SUMS,
    )


def own_amount(spec: ReleaseSpec) -> Fraction:
    """Return the main charge of this release: 0 if an earlier release paid for it."""
    return spec.main_amount if spec.measurements_of is None else Fraction(0)


def rests_on(spec: ReleaseSpec, measurements: str) -> schema.RestsOn | None:
    """Return the earlier release that paid for the measurements and its amount, if there is one."""
    if spec.measurements_of is None:
        return None
    return schema.RestsOn(release_id=spec.measurements_of, measurements=measurements, amount=spec.main_amount)


def with_total_budget(spec: ReleaseSpec, charged: Charged) -> ReleaseSpec:
    """Return the spec with the budget of all charges of the release: every further attempt adds to it."""
    more = spec.tally_amount * max(len(charged.tried) - 1, 0)
    privacy = spec.privacy.model_copy(update={"budget": spec.privacy.budget + more})
    return spec.model_copy(update={"privacy": privacy})


# --- what was measured and how: mechanism, parameters, sensitivity, noise and scale of each measurement

_LAPLACE = "integer noise z with P(z) ∝ exp(-|z|/scale)"
_GAUSSIAN = "integer noise z with P(z) ∝ exp(-z²/(2·scale²))"
_LATTICE = "; values and noise in steps of `width`"
DISTRIBUTIONS = {
    "discrete_laplace": _LAPLACE,
    "discrete_gaussian": _GAUSSIAN,
    "lattice_laplace": _LAPLACE + _LATTICE,
    "lattice_gaussian": _GAUSSIAN + _LATTICE,
    "exponential": "one candidate, with P ∝ exp(-(best score - score)/scale)",
    "permute_and_flip": "a random one of the candidates whose coin shows heads, with P(heads) = exp(-(best "
    "score - score)/scale)",
    "least_noisy_partition": "the partition of least cost, each cost with " + _LAPLACE,
}


def measured(spec: ReleaseSpec, events: list[Event]) -> tuple[schema.Measured, ...]:
    """Return each measurement in the order of the allocation, with its draws; equal draws are grouped."""
    limits, draws = budgets(spec), by_measurement(spec, events)
    spent_on = []
    tallies = {tally.purpose: tally.of for tally in spec.tallies}
    for purpose in [*tallies, *(name for name in limits if name not in tallies)]:
        mechanism = None if purpose in tallies else mechanism_of(spec, purpose.partition("/")[0])
        spent_on.append(
            schema.Measured(
                name=tallies.get(purpose, purpose.partition("/")[0]),
                level=None if purpose in tallies else purpose.partition("/")[2] or None,
                purpose=purpose,
                mechanism=None if mechanism is None else mechanism.name,
                parameters={} if mechanism is None else mechanism.parameters(),
                per_record=limits[purpose],
                spent_per_record=spent(draws[purpose]),
                draws=_grouped_draws(draws[purpose]),
            )
        )
    return tuple(spent_on)


def mechanism_of(spec: ReleaseSpec, name: str) -> Mechanism:
    """Return the mechanism of a table, of the array of a measure, or of a histogram."""
    table = next((array for array in spec.arrays if array.name == name), None)
    if table is not None:
        return build(table.mechanism, **table.parameters)
    histogram = next(histogram for histogram in spec.histograms if histogram.name == name)
    return build(MECHANISM, **{**histogram.parameters, "form": "prevalences"})


def _grouped_draws(events: list[Event]) -> tuple[schema.Draws, ...]:
    """Return the draws of a measurement; draws that differ only in their cells are grouped."""
    kinds: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        margins = event.purpose.startswith("error of ")
        kind = (event.primitive, event.loss, event.sensitivity, event.scale_squared, event.width, margins)
        kinds.setdefault(kind, []).append(event)
    return tuple(_draws(events) for events in kinds.values())


def _draws(events: list[Event]) -> schema.Draws:
    event, one = events[0], schema.Draw.of(events[0])
    margins, choice = event.purpose.startswith("error of "), event.primitive in CHOOSING
    return schema.Draws(
        noise=one.primitive,
        distribution=DISTRIBUTIONS[event.primitive],
        of="errors, for margins" if margins else "choices" if choice else "numbers",
        norm="score" if choice else "L2" if event.primitive in GAUSSIANS else "L1",
        sensitivity=one.sensitivity,
        scale=one.scale,
        scale_squared=one.scale_squared,
        width=one.width,
        loss=one.loss,
        draws=sum(event.alike for event in events),
        numbers=sum(event.alike * prod(event.shape) for event in events),
    )


def audited(spec: ReleaseSpec) -> dict[str, schema.Audit | None]:
    """Return the last recorded audit of each mechanism of a spec."""
    built = [build(array.mechanism, **array.parameters) for array in spec.arrays]
    mechanisms = [name for mechanism in built for name in mechanism.components]
    known, definition = audits(), spec.privacy.definition
    used = dict.fromkeys(mechanisms + [MECHANISM for _ in spec.histograms])
    return {name: known.get((name, definition)) for name in used}


# The account that paid, as it stood when the charge was reserved, and who had approved the spec.


_WORDS = (
    "All figures are of the ledger's entry that reserved this charge; they never change, and an export of "
    "the ledger has them. What was charged later is in the certificates of later releases.",
    "`used` is the plain sum, exact, of all that was reserved or spent up to then, this charge and those "
    "for its tallies included. It is what the ledger compares with the cap, and by that sum one unit has "
    "lost at most so much through this account, as far as every release of it is counted.",
    "Under zcdp, where budgets were chosen in view of earlier releases, the bound is the cap as it was fixed "
    "beforehand, and not the sum.",
    "That earlier charges were made is not always independent of the data: each was made because its "
    "own exact rules held, and a draft may have been withheld for what an officer saw. That is listed "
    "as outside the guarantee.",
)


def account_section(reservation: Reservation) -> schema.Account:
    """Return the account's terms, the charge's place in it, and its cumulative loss."""
    terms, cap = reservation.terms, reservation.terms.cap
    return schema.Account(
        name=terms.name,
        entity=terms.unit,
        population=terms.population,
        relation=cast("Relation", terms.relation),
        definition=cast("Definition", terms.definition),
        delta=terms.delta,
        cap=cap,
        cap_per_period=terms.cap_per_period,
        cap_per_product=terms.cap_per_product,
        reserved=schema.Reserved(
            entry=reservation.entry,
            at=reservation.at,
            amount=reservation.after.used - reservation.before.used,
            left_before=cap - reservation.before.used,
            left_after=cap - reservation.after.used,
        ),
        cumulative=schema.Cumulative(
            used=reservation.after.used, charges=reservation.charges, releases_before=reservation.releases
        ),
        words=_WORDS,
    )


def approval_section(spec: ReleaseSpec, reservation: Reservation) -> schema.Approval:
    """Return the approval of the spec before the charge, and whether it was needed."""
    approved, terms = reservation.approved, reservation.terms
    officers = terms.approvals_for(spec.product)
    several: dict[str, Any] = {}
    if officers > 1:
        others = () if approved is None else approved.others
        several = {"officers": officers, "others": tuple(map(_approved, others))}
    return schema.Approval(
        needed=terms.wants_approval(
            product=spec.product, exact=bool(exact_facts(spec)), revises=spec.revises
        ),
        account_asks_always=terms.needs_approval or officers > 1,
        account_asks_for_exact_facts=terms.approve_exact,
        approved=None if approved is None else _approved(approved),
        **several,
    )


def _approved(approved: Approved) -> schema.Approved:
    return schema.Approved(key=approved.key, entry=approved.entry, at=approved.at, at_most=approved.most)


def reservation_in(certificate: schema.Certificate) -> Reservation:
    """Return the reservation from which the two sections were made."""
    account, approval = certificate.account, certificate.approval
    reserved, by, used = account.reserved, approval.approved, account.cumulative.used
    terms = Terms(
        name=account.name,
        unit=account.entity,
        population=account.population,
        relation=account.relation,
        definition=account.definition,
        cap=account.cap,
        quantum=Fraction(1),  # not stated
        cap_per_period=account.cap_per_period,
        cap_per_product=account.cap_per_product,
        delta=account.delta,
        needs_approval=approval.account_asks_always,
        approve_exact=approval.account_asks_for_exact_facts,
        approvals=approval.officers or 1,
    )
    others = tuple(_read(other) for other in approval.others or ())
    return Reservation(
        entry=reserved.entry,
        at=reserved.at,
        terms=terms,
        before=Usage(account.cap - reserved.left_before),
        after=Usage(used),
        charges=account.cumulative.charges,
        releases=account.cumulative.releases_before,
        approved=None if by is None else replace(_read(by), others=others),
    )


def _read(approved: schema.Approved) -> Approved:
    return Approved(approved.key, approved.entry, approved.at, approved.at_most)


def unfit(certificate: schema.Certificate, spec: ReleaseSpec) -> str | None:
    """Return the first field of the two sections that does not fit the rest of the certificate, or None."""
    reservation, head = reservation_in(certificate), certificate.ledger.head.seq
    terms, privacy, by = reservation.terms, spec.privacy, reservation.approved
    tally_charges = len(certificate.ledger.tally_charges)
    own_cost, other = own_amount(spec), int(spec.measurements_of is not None)
    approvals = [] if by is None else [*by.others, by]
    for field, fits in (
        ("account.name", terms.name == spec.dataset),
        ("account.entity", terms.unit == privacy.protects),
        ("account.population", terms.population == certificate.privacy.unit.population),
        ("account.relation", terms.relation == privacy.relation),
        ("account.definition", terms.definition == privacy.definition),
        ("account.delta", _deltas_fit(certificate, terms)),
        ("account.reserved.amount", reservation.after.used - reservation.before.used == own_cost),
        ("account.reserved.left_before", reservation.before.used >= spec.tally_amount * tally_charges),
        ("account.cumulative.used", reservation.after.used <= terms.cap),
        ("account.cap_per_period", _covers(terms.cap_per_period, own_cost)),
        ("account.cap_per_product", _covers(terms.cap_per_product, own_cost)),
        ("account.reserved.entry", 0 < reservation.entry < head + other),
        ("account.cumulative.charges", reservation.charges > tally_charges),
        ("account.cumulative.releases_before", other <= reservation.releases < reservation.charges + other),
        ("approval.approved", by is not None or not certificate.approval.needed),
        ("approval.others", len({one.key for one in approvals}) == len(approvals)),
        ("approval.others", len(approvals) >= (certificate.approval.officers or 0)),
        ("approval.approved.entry", all(0 < one.entry < reservation.entry for one in approvals)),
        ("approval.approved.at", all(one.at <= reservation.at for one in approvals)),
        ("approval.approved.at_most", all(_covers(one.most, own_cost) for one in approvals)),
    ):
        if not fits:
            return field
    return None


def _deltas_fit(certificate: schema.Certificate, terms: Terms) -> bool:
    stated = [bound.delta for bound in certificate.privacy.epsilon_delta or ()]
    return terms.definition == "pure" or terms.delta is None or terms.delta in stated


def _covers(limit: Fraction | None, amount: Fraction) -> bool:
    return limit is None or amount <= limit
