"""The sections of a certificate in reading order; what is exact comes before ε."""

from __future__ import annotations

from pathlib import Path

from tabularium.mechanisms.accounting import Event
from tabularium.tasks.margins.error_model import MEANING
from tabularium.tasks.publish.certificate.account_section import account_section, approval_section
from tabularium.tasks.publish.certificate.certificate_parts import Charged, Contents, Outcome, Told
from tabularium.tasks.publish.certificate.spending import (
    allocation,
    audited,
    composition,
    conversion,
    measured,
    own_amount,
    rests_on,
    with_total_budget,
)
from tabularium.tasks.publish.guarantee import privacy_section
from tabularium.validations import certificate as said
from tabularium.validations.certificate import CERTIFICATE, FORMAT, Certificate
from tabularium.validations.domains import known_marginals as prior_tables
from tabularium.validations.domains.code_lists import published_name
from tabularium.validations.spec.exact_facts import Neighbours, along_of, facts_of_release
from tabularium.validations.spec.load import published, spec_digest
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.privacy import RowCountRule, Tally
from tabularium.validations.spec.source import public_name
from tabularium.validations.spec.summary import tally_about
from tabularium.validations.spec.tables import ABOVE, Invariant

_PUBLIC = ("codes/", "figures/", "invariants/")
_PRIOR = f"{prior_tables.FOLDER}/"


def build_certificate(
    spec: ReleaseSpec, near: Neighbours, contents: Contents, charged: Charged, told: Told
) -> Certificate:
    """Return a certificate of all its sections.

    :mod:`tabularium.tasks.publish.verify_certificate` makes them again from a certificate and compares.

    Parameters
    ----------
    near
        Which inputs the guarantee compares.
    """
    public = public_digests(contents.files)
    tallies = [attempts for _, _, attempts in charged.tried]
    withheld = [(each.criterion, each.consulted) for each in charged.withheld]
    facts = facts_of_release(spec, charged.attempts, tallies, withheld)
    events, lists, methods = contents.events, _code_lists(spec, public), _methods(contents.tables)
    return Certificate(
        format=FORMAT,
        release_id=told.release_id,
        product=spec.product,
        period=spec.period,
        revises=spec.revises,
        dataset=spec.dataset,
        about=spec.about,
        created=told.created,
        outside_the_guarantee=tuple(
            said.Fact(kind=each.kind, name=each.name, what=each.what) for each in facts
        ),
        privacy=_privacy(spec, near, events, charged),
        approval=approval_section(spec, charged.reservation),
        account=account_section(charged.reservation),
        allocation=allocation(spec),
        composition=composition(spec, events),
        ledger=_ledger(spec, charged, told.measurements),
        measurements=said.Measurements(
            digest=told.measurements, withheld=spec.publication.measurements.withhold
        ),
        measured=measured(spec, events),
        audits=audited(spec),
        tallies=tuple(
            _tally(spec, tally, outcome)
            for tally, outcome in zip(spec.tallies, contents.tallies, strict=True)
        ),
        transcript=tuple(said.Draw.of(event) for event in events),
        spec=published(spec),
        spec_digest=spec_digest(spec, {**public, **told.lookups}),
        code_lists=lists,
        lookups=look_ups(spec, told.lookups),
        domains=domains(spec, lists),
        validation=validation(spec, len(charged.tried)),
        tuning=tuning(spec),
        invariants=tuple(
            _invariant(spec, known, public, told.numbers[known.name], contents.conflicts[known.name])
            for known in spec.invariants
        ),
        impossible=tuple(
            said.Impossible.model_validate(each.model_dump(mode="json")) for each in spec.impossible
        ),
        tables=contents.tables,
        agreement=contents.agreement,
        postprocessing=postprocessing(spec, told.postprocessing),
        confidence=spec.publication.confidence,
        margins={method: MEANING[method] for method in MEANING if method in methods},
        randomness=randomness(events),
        side_channels=SIDE_CHANNELS,
        security=security(kept=told.workspace_kept),
        files=contents.files,
        software=told.software,
        code=told.code,
    )


def public_digests(files: dict[str, str]) -> dict[str, str]:
    """Return the digests of code lists and public numbers by their names, from those of a whole folder.

    And those of the certificates of earlier releases that tables were drawn towards.
    """
    found = {Path(name).name: digest for name, digest in files.items() if name.startswith(_PUBLIC)}
    for name, digest in files.items():
        if name.startswith(_PRIOR) and Path(name).name == CERTIFICATE:
            found[prior_tables.public_prior(Path(name).parent.name)] = digest
    return dict(sorted(found.items()))


def _privacy(spec: ReleaseSpec, near: Neighbours, events: list[Event], charged: Charged) -> said.Privacy:
    """Return whose protection is promised, and what the promise is."""
    purposes = {tally.purpose for tally in spec.tallies}
    again = [event for event in events if event.purpose in purposes] * (len(charged.tried) - 1)
    paid = with_total_budget(spec, charged)
    return privacy_section(
        paid,
        near,
        events + again,
        charged.deltas,
        population=charged.population,
        conversion=conversion(paid),
    )


def _ledger(spec: ReleaseSpec, charged: Charged, measurements: str) -> said.Charge:
    """Return what the ledger says of the charge, and the newest entry it had."""
    return said.Charge(
        account=spec.dataset,
        amount=own_amount(spec),
        rests_on=rests_on(spec, measurements),
        definition=spec.privacy.definition,
        attempts=charged.attempts,
        tally_charges=tuple(
            said.TallyCharge(number=number, release_id=name, amount=spec.tally_amount, attempts=attempts)
            for number, name, attempts in charged.tried
        ),
        withheld=tuple(said.Withheld(**vars(each)) for each in charged.withheld),
        head=said.Head.model_validate(charged.head.fields()),
    )


def _tally(spec: ReleaseSpec, tally: Tally, outcome: Outcome) -> said.Tally:
    broken = {} if outcome.broken is None else {"broken": outcome.broken}
    return said.Tally.model_validate({"number": outcome.number, **broken, **tally_about(spec, tally)})


def _code_lists(spec: ReleaseSpec, public: dict[str, str]) -> dict[str, str]:
    names = {published_name(column.code_list) for column in spec.columns.values() if column.code_list}
    return {name: digest for name, digest in public.items() if name in names}


def _invariant(
    spec: ReleaseSpec, known: Invariant, public: dict[str, str], numbers: int, conflicts: dict[str, int]
) -> said.Invariant:
    along, level = along_of(spec, known)
    file = None if known.values is None else Path(known.values).name
    return said.Invariant(
        name=known.name,
        dimensions=tuple(sorted(known.dimensions, key=lambda name: name != along)),
        level=level,
        numbers=numbers,
        reason=known.reason,
        file=file,
        sha256=None if file is None else public[file],
        compared=conflicts["compared"],
        beyond_chance=conflicts["beyond_chance"],
    )


def _methods(tables: dict[str, said.Table]) -> set[str]:
    return {
        margins.method
        for table in tables.values()
        for margins in [table.margins, *(measure.margins for measure in (table.measures or {}).values())]
    }


SIDE_CHANNELS = (
    said.SideChannel(
        channel="low bits of floating-point noise",
        considered="Closed: noise is drawn and added in exact integers; no floating-point number stands "
        "between the random bits and a measured one.",
    ),
    said.SideChannel(
        channel="a second draw of the same release",
        considered="Closed: the ledger is charged first, and complete measurements are kept and used "
        "again; the number of attempts is listed as outside the guarantee.",
    ),
    said.SideChannel(
        channel="refusals, logs, messages, the orchestrator's database",
        considered="Why data were refused is told on the local terminal and in the home alone; that a "
        "run was refused, and in which stage, is seen by who sees runs, and no budget covers it.",
    ),
    said.SideChannel(
        channel="running time and memory",
        considered="Seen by operators alone, and listed as outside the guarantee; the samplers do not "
        "run in constant time, so that who can time a run on its machine may learn something of the noise.",
    ),
    said.SideChannel(
        channel="digests of confidential data",
        considered="Closed: nothing public is a digest of the input, keyed or not; release ids do not "
        "depend on it.",
    ),
    said.SideChannel(
        channel="order and existence of published cells",
        considered="Closed: the cells follow from the spec and its code lists, and all of them are "
        "published; those left blank are chosen from published numbers.",
    ),
    said.SideChannel(
        channel="order in memory, hash seeds, what a process remembers",
        considered="Looked for: the replay audit compares runs on neighbours, in processes of their "
        "own, bit for bit under the same outputs of the noise.",
    ),
    said.SideChannel(
        channel="whoever can read the machine while it runs",
        considered="Not closed: the secure workspace holds microdata while a run lasts, and the home "
        "holds the noisy measurements; both are closed to other users of the machine, and to nobody who "
        "administers it.",
    ),
)
_SECURITY = (
    "True counts and microdata lie in one workspace, which only its owner can read (mode 0700); it is "
    "removed when the run ends unless it is kept for an inquiry.",
    "The noisy measurements and this certificate are kept in the agency's home without a limit of time, so "
    "that a lost folder can be made again without new noise. No noise and no key of noise is kept.",
    "Backups that this program makes of the home are encrypted, all but the entries of the ledger.",
    "This folder holds nothing that is not meant for the public.",
)


def randomness(events: list[Event]) -> said.Randomness:
    """Return where random bits come from, and which samplers were used."""
    return said.Randomness(
        generator="AES-256-CTR, one stream for each measurement",
        seeded_by="the operating system's generator, 256 fresh bits for a stream",
        predictable=False,
        keys_kept=False,
        arithmetic="exact integers",
        samplers=tuple(sorted({said.Draw.of(event).primitive for event in events})),
    )


def security(*, kept: bool) -> said.Security:
    """Return who could read the confidential data, and what is kept."""
    return said.Security(workspace_mode="0700", workspace_kept=kept, words=_SECURITY)


# --- what was settled before the data were read: domains, rules, tuning; and what is done after the noise

_TUNING = (
    "No confidential data were used by this program to choose mechanisms, parameters, shares, levels or "
    "bins: they stand in the spec, whose digest the ledger had before noise was drawn. Choices that a "
    "mechanism makes in view of the data go through the noise channel and are paid for, draw by draw, in "
    "the transcript. What the authors of the spec knew when they wrote it cannot be seen from here; the "
    "spec names "
)
_FINISH = (
    "Each mechanism turns its own noisy numbers into estimates. `identity`, `cells` and `gaussian` leave "
    "them as they are, which is unbiased; others merge, smooth or drop, and are biased towards the cells "
    "that they merge, as their pages say."
)
_DRAWN_TOWARDS = (
    "The finest measured counts of some tables are drawn towards those that an earlier release published, as "
    "far as the noisy counts show that it is to be trusted. Biased: changes since that release look smaller "
    "than they are; `tables.NAME.prior.changes` says by how much on average."
)
_ABOVE = (
    "The finest measured counts of some tables are drawn towards what the level above makes expect, each "
    "area made up like the one it lies in, as far as the noisy counts bear it out. Biased: areas look more "
    "alike than they are; `tables.NAME.above.differences` says by how much on average."
)
_CONSISTENCY = (
    "Weighted least squares over levels and tables: linear, and unbiased as far as the measurements are "
    "and their weights do not depend on them."
)
_NONNEGATIVITY = (
    "From the top down each family is moved to the nearest numbers that are not negative and keep the sum "
    "above them. Biased: cells near zero upwards, their larger siblings downwards by as much; totals near "
    "zero upwards by at most 0.4 standard deviations, and far from zero not."
)
_ROUNDING = (
    "To whole numbers that keep the sums, largest remainders first, ties by place and not at random. A "
    "single cell moves by less than 1 in most families; what whole numbers could not meet is named in "
    "rounding_exceptions.txt."
)
_LARGEST = "Sizes above the largest that is possible are set to it; the number of items stays."
_MARGINS = (
    "Margins of error are found last, of what is published; see `margins`. They are made from published "
    "numbers and from public seeds, and cost nothing beyond `of_it_for_margins`."
)
_QUALITY = (
    "Cells are flagged or left blank by published counts and margins alone. What is shown is selected by "
    "that: a mean over the cells that are left is biased upwards."
)


def domains(spec: ReleaseSpec, code_lists: dict[str, str]) -> dict[str, said.Domain]:
    """Return where the cells of every column come from: never from the data."""
    found = {}
    for name, column in spec.columns.items():
        file = None if column.code_list is None else published_name(column.code_list)
        found[name] = said.Domain(
            kind=column.written_as,
            from_="the spec" if file is None else "a public code list",
            file=file,
            sha256=None if file is None else code_lists[file],
            nulls=column.nulls,
            invalid=column.invalid,
        )
    return found


def look_ups(spec: ReleaseSpec, digests: dict[str, str]) -> tuple[said.LookUp, ...]:
    """Return where columns were looked up: in public tables, by digest, and in tables of the privacy unit."""
    return tuple(
        said.LookUp(
            name=name,
            is_="of the privacy unit" if look.public is None else "public and fixed",
            reason=look.public,
            sha256=digests.get(public_name(name)),
            unit=look.unit,
            key=look.key,
            from_=look.looked_up,
        )
        for name, look in spec.lookups.items()
    )


def validation(spec: ReleaseSpec, tried: int) -> said.Validation:
    """Return what the input was judged by, and what of it was paid for, ``tried`` times."""
    rules = []
    for rule in spec.rules:
        noisy = isinstance(rule, RowCountRule) and rule.noisy is not None
        share = rule.noisy.share if isinstance(rule, RowCountRule) and rule.noisy is not None else 0
        rules.append(
            said.Rule(
                rule=rule.name,
                severity=rule.severity,
                judged="a noisy number" if noisy else "exactly",
                charged=spec.privacy.budget * share * tried,
                outside_the_guarantee=not noisy and rule.severity == "stop",
            )
        )
    return said.Validation(rules=tuple(rules), max_rejected=_limit(spec), max_rejected_charged="0")


def _limit(spec: ReleaseSpec) -> str:
    limit = spec.source.max_rejected
    return str(limit) if isinstance(limit, int) else f"{float(100 * limit):g}%"


def tuning(spec: ReleaseSpec) -> said.Tuning:
    """Return which data were used to choose mechanisms and parameters: a published release, or none."""
    if spec.tuning is None:
        return said.Tuning(data=(), words=f"{_TUNING}no data for it.")
    named = f"the published release {spec.tuning.release}, which costs nothing to look at, and no other data."
    on = said.TunedOn(release=spec.tuning.release, certificate=spec.tuning.certificate)
    return said.Tuning(data=(on,), words=f"{_TUNING}{named}")


def postprocessing(spec: ReleaseSpec, version: int) -> said.PostProcessing:
    """Return the steps after the noise, in their order, and how each biases what is published."""
    does = spec.postprocessing
    cut = any(each.largest_size(spec.privacy) is not None for each in spec.histograms)
    towards = {each.prior for each in spec.tables} - {None}
    steps: list[tuple[said.StepName, bool, str]] = [("mechanism", True, _FINISH)]
    if towards - {ABOVE}:
        steps.append(("prior", True, _DRAWN_TOWARDS))
    if ABOVE in towards:
        steps.append(("above", True, _ABOVE))
    steps += [
        ("consistency", does.consistency, _CONSISTENCY),
        ("nonnegativity", does.nonnegativity, _NONNEGATIVITY),
        ("rounding", does.rounding, _ROUNDING),
        ("largest_size", cut, _LARGEST),
        ("margins", True, _MARGINS),
        ("quality", spec.publication.quality is not None, _QUALITY),
    ]
    return said.PostProcessing(
        version=version,
        steps=tuple(said.Step(step=step, done=done, bias=bias) for step, done, bias in steps),
    )
