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
from tabularium.validations import certificate as said
from tabularium.validations.certificate.value_kinds import Definition, Relation
from tabularium.validations.spec.checks.table_checks import MECHANISM
from tabularium.validations.spec.exact_facts import exact_facts
from tabularium.validations.spec.model import ReleaseSpec


@dataclass(frozen=True)
class Outcome:
    """What only the draw settles of a tally: its noisy number, and of a rule what it breaks."""

    number: int
    broken: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Contents:
    """What lies in a release folder beside its certificate.

    Attributes
    ----------
    tables
        What is said of each table.
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

    tables: dict[str, said.Table]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, JsonValue]
    conflicts: dict[str, dict[str, int]]
    tallies: list[Outcome]


@dataclass(frozen=True)
class Charged:
    """What a certificate says of the charge and of its account.

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
class Told:
    """What nothing else in a certificate implies.

    Attributes
    ----------
    created
        When it was made, UTC.
    measurements
        The digest of the measurements.
    postprocessing
        The version of it.
    numbers
        Invariant -> how many numbers it has.
    lookups
        Public look-up -> its digest.
    """

    release_id: str
    created: str
    measurements: str
    software: dict[str, str]
    code: said.Code
    postprocessing: int
    workspace_kept: bool
    numbers: dict[str, int]
    lookups: dict[str, str]


_Kind = Literal["tally", "table", "measure", "histogram"]
_SUMS = (
    "Tallies, tables, levels and histograms see the same records one after the other: what they cost is "
    "added (sequential composition; exact for ε and for ρ).",
    "Draws inside one scope of disjoint cells count as the dearest of its branches: a record is in one "
    "cell of a table. The evidence is in the transcript, where `branches` names scope and branch of every "
    "draw; the noise channel gave each branch its cells, and refuses a cell that another branch has.",
    "One unit changes at most `changed_records` records, k; what it loses follows by group privacy: k "
    "times the ε of a record, or k² times the ρ.",
    "Releases of one account are added too, whatever their periods: no composition in parallel over releases "
    "is claimed here.",
)


def budgets(spec: ReleaseSpec) -> dict[str, Fraction]:
    """Return what each measurement may cost one record, by its name in the transcript."""
    found = {f"{name}/{level}" if level else name: loss for (name, level), loss in spec.losses.items()}
    return found | {each.purpose: spec.privacy.record_budget * each.share for each in spec.tallies}


def by_measurement(spec: ReleaseSpec, events: Iterable[Event]) -> dict[str, list[Event]]:
    """Return the draws of each measurement of a spec; ``""`` has those that belong to none."""
    found: dict[str, list[Event]] = {purpose: [] for purpose in (*budgets(spec), "")}
    for event in events:
        found[next((each for each in found if each and _is_for(event.purpose, each)), "")].append(event)
    return found


def _is_for(named: str, purpose: str) -> bool:
    return f"{named.removeprefix('error of ')}/".startswith(f"{purpose}/")


def conversion(spec: ReleaseSpec) -> said.Conversion:
    """Return which of ε, δ and ρ is exact, and how the others follow from it."""
    privacy = spec.privacy
    if privacy.definition == "pure":
        return said.Conversion(
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
    return said.Conversion(exact="rho", draws_settled_beforehand=settled, words=words)


def allocation(spec: ReleaseSpec) -> tuple[said.BudgetPart, ...]:
    """Return the parts of the budget in the order of drawing; their shares add up to exactly 1."""
    record = spec.privacy.record_budget
    parts: list[tuple[_Kind, str, str | None, Fraction, Fraction]] = [
        ("tally", each.of, None, record * each.share, Fraction(0)) for each in spec.tallies
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
        said.BudgetPart(
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


def composition(spec: ReleaseSpec, events: list[Event]) -> said.Composition:
    """Return by which rules the draws are added up, and where disjoint cells are used."""
    parallel = []
    for purpose, own in by_measurement(spec, events).items():
        branches = {branch: event.alike for event in own for branch in event.branches}
        if branches:
            scopes, number = len({scope for scope, _ in branches}), sum(branches.values())
            parallel.append(said.Parallel(measurement=purpose, scopes=scopes, branches=number))
    return said.Composition(
        rule="sequential",
        changed_records=spec.privacy.changed_records,
        parallel=tuple(parallel),
        across_releases="sequential",
        words=_SUMS,
    )


def own_amount(spec: ReleaseSpec) -> Fraction:
    """Return what the main charge of the release itself is: nothing, if an earlier one paid for it."""
    return spec.main_amount if spec.measurements_of is None else Fraction(0)


def rests_on(spec: ReleaseSpec, measurements: str) -> said.RestsOn | None:
    """Return which release paid for the measurements, and how much, if it was an earlier one.

    Parameters
    ----------
    measurements
        Their digest.
    """
    if spec.measurements_of is None:
        return None
    return said.RestsOn(release_id=spec.measurements_of, measurements=measurements, amount=spec.main_amount)


def with_total_budget(spec: ReleaseSpec, charged: Charged) -> ReleaseSpec:
    """Return the spec with the budget that all charges of the release cost: every further try adds to it."""
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


def measured(spec: ReleaseSpec, events: list[Event]) -> tuple[said.Measured, ...]:
    """Return each measurement in the order of the allocation, with its draws; equal draws stand as one."""
    limits, own = budgets(spec), by_measurement(spec, events)
    found = []
    tallies = {each.purpose: each.of for each in spec.tallies}
    for purpose in [*tallies, *(name for name in limits if name not in tallies)]:
        mechanism = None if purpose in tallies else mechanism_of(spec, purpose.partition("/")[0])
        found.append(
            said.Measured(
                name=tallies.get(purpose, purpose.partition("/")[0]),
                level=None if purpose in tallies else purpose.partition("/")[2] or None,
                purpose=purpose,
                mechanism=None if mechanism is None else mechanism.name,
                parameters={} if mechanism is None else mechanism.parameters(),
                per_record=limits[purpose],
                spent_per_record=spent(own[purpose]),
                draws=_alike(own[purpose]),
            )
        )
    return tuple(found)


def mechanism_of(spec: ReleaseSpec, name: str) -> Mechanism:
    """Return the mechanism of a table, of the array of a measure, or of a histogram."""
    table = next((each for each in spec.arrays if each.name == name), None)
    if table is not None:
        return build(table.mechanism, **table.parameters)
    histogram = next(each for each in spec.histograms if each.name == name)
    return build(MECHANISM, **{**histogram.parameters, "form": "prevalences"})


def _alike(events: list[Event]) -> tuple[said.Draws, ...]:
    """Return the draws of a measurement; such as differ in nothing but their cells stand as one."""
    kinds: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        margins = event.purpose.startswith("error of ")
        kind = (event.primitive, event.loss, event.sensitivity, event.scale_squared, event.width, margins)
        kinds.setdefault(kind, []).append(event)
    return tuple(_draws(alike) for alike in kinds.values())


def _draws(alike: list[Event]) -> said.Draws:
    event, one = alike[0], said.Draw.of(alike[0])
    margins, choice = event.purpose.startswith("error of "), event.primitive in CHOOSING
    return said.Draws(
        noise=one.primitive,
        distribution=DISTRIBUTIONS[event.primitive],
        of="errors, for margins" if margins else "choices" if choice else "numbers",
        norm="score" if choice else "L2" if event.primitive in GAUSSIANS else "L1",
        sensitivity=one.sensitivity,
        scale=one.scale,
        scale_squared=one.scale_squared,
        width=one.width,
        loss=one.loss,
        draws=sum(each.alike for each in alike),
        numbers=sum(each.alike * prod(each.shape) for each in alike),
    )


def audited(spec: ReleaseSpec) -> dict[str, said.Audit | None]:
    """Return what the last recorded audit found of each mechanism that a spec uses."""
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


def account_section(found: Reservation) -> said.Account:
    """Return the account's terms, the charge's place in it, and its cumulative loss."""
    terms, cap = found.terms, found.terms.cap
    return said.Account(
        name=terms.name,
        entity=terms.unit,
        population=terms.population,
        relation=cast("Relation", terms.relation),
        definition=cast("Definition", terms.definition),
        delta=terms.delta,
        cap=cap,
        cap_per_period=terms.cap_per_period,
        cap_per_product=terms.cap_per_product,
        reserved=said.Reserved(
            entry=found.entry,
            at=found.at,
            amount=found.after.used - found.before.used,
            left_before=cap - found.before.used,
            left_after=cap - found.after.used,
        ),
        cumulative=said.Cumulative(
            used=found.after.used, charges=found.charges, releases_before=found.releases
        ),
        words=_WORDS,
    )


def approval_section(spec: ReleaseSpec, found: Reservation) -> said.Approval:
    """Return who had approved the spec before it was charged, and whether somebody had to."""
    approved, terms = found.approved, found.terms
    officers = terms.approvals_for(spec.product)
    several: dict[str, Any] = {}
    if officers > 1:
        others = () if approved is None else approved.others
        several = {"officers": officers, "others": tuple(map(_said, others))}
    return said.Approval(
        needed=terms.wants_approval(
            product=spec.product, exact=bool(exact_facts(spec)), revises=spec.revises
        ),
        account_asks_always=terms.needs_approval or officers > 1,
        account_asks_for_exact_facts=terms.approve_exact,
        approved=None if approved is None else _said(approved),
        **several,
    )


def _said(approved: Approved) -> said.Approved:
    return said.Approved(key=approved.key, entry=approved.entry, at=approved.at, at_most=approved.most)


def reservation_in(certificate: said.Certificate) -> Reservation:
    """Return what the two sections were made of."""
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
    others = tuple(_read(each) for each in approval.others or ())
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


def _read(approved: said.Approved) -> Approved:
    return Approved(approved.key, approved.entry, approved.at, approved.at_most)


def unfit(certificate: said.Certificate, spec: ReleaseSpec) -> str | None:
    """Return the first field of the two sections that does not fit the rest of the certificate, or None."""
    found, head = reservation_in(certificate), certificate.ledger.head.seq
    terms, privacy, by = found.terms, spec.privacy, found.approved
    tally_charges = len(certificate.ledger.tally_charges)
    own, other = own_amount(spec), int(spec.measurements_of is not None)
    each = [] if by is None else [*by.others, by]
    for field, fits in (
        ("account.name", terms.name == spec.dataset),
        ("account.entity", terms.unit == privacy.protects),
        ("account.population", terms.population == certificate.privacy.unit.population),
        ("account.relation", terms.relation == privacy.relation),
        ("account.definition", terms.definition == privacy.definition),
        ("account.delta", _deltas_fit(certificate, terms)),
        ("account.reserved.amount", found.after.used - found.before.used == own),
        ("account.reserved.left_before", found.before.used >= spec.tally_amount * tally_charges),
        ("account.cumulative.used", found.after.used <= terms.cap),
        ("account.cap_per_period", _covers(terms.cap_per_period, own)),
        ("account.cap_per_product", _covers(terms.cap_per_product, own)),
        ("account.reserved.entry", 0 < found.entry < head + other),
        ("account.cumulative.charges", found.charges > tally_charges),
        ("account.cumulative.releases_before", other <= found.releases < found.charges + other),
        ("approval.approved", by is not None or not certificate.approval.needed),
        ("approval.others", len({one.key for one in each}) == len(each)),
        ("approval.others", len(each) >= (certificate.approval.officers or 0)),
        ("approval.approved.entry", all(0 < one.entry < found.entry for one in each)),
        ("approval.approved.at", all(one.at <= found.at for one in each)),
        ("approval.approved.at_most", all(_covers(one.most, own) for one in each)),
    ):
        if not fits:
            return field
    return None


def _deltas_fit(certificate: said.Certificate, terms: Terms) -> bool:
    stated = [each.delta for each in certificate.privacy.epsilon_delta or ()]
    return terms.definition == "pure" or terms.delta is None or terms.delta in stated


def _covers(limit: Fraction | None, amount: Fraction) -> bool:
    return limit is None or amount <= limit
