"""The certificate from a run and its ledger, section by section; exact facts come before ε."""

from __future__ import annotations

import datetime as dt
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.margins.error_model import MEANING
from tabularium.tasks.postprocess.postprocessing import VERSION
from tabularium.tasks.publish.certificate.software import code_provenance, software_versions
from tabularium.tasks.publish.certificate.spending import (
    Charged,
    Contents,
    Outcome,
    Stated,
    account_section,
    allocation,
    approval_section,
    audited,
    composition,
    conversion,
    measured,
    own_amount,
    rests_on,
    with_total_budget,
)
from tabularium.tasks.publish.guarantee import privacy_section
from tabularium.tasks.published_heads import stamped_head
from tabularium.tasks.runtime.run import Run
from tabularium.validations import certificate as schema
from tabularium.validations.certificate import CERTIFICATE, FORMAT, Certificate
from tabularium.validations.domains import known_marginals as prior_tables
from tabularium.validations.domains.code_lists import published_name
from tabularium.validations.release_spec.exact_facts import Neighbours, along_of, facts_of_release, neighbours
from tabularium.validations.release_spec.load import published, spec_digest
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import RowCountRule, Tally
from tabularium.validations.release_spec.source import public_name
from tabularium.validations.release_spec.summary import tally_about
from tabularium.validations.release_spec.tables import ABOVE, Invariant

if TYPE_CHECKING:
    from tabularium.ledger import Ledger
    from tabularium.tasks.ledger_stages import MeasuredHandle

_PUBLIC = ("codes/", "figures/", "invariants/")
_PRIOR = f"{prior_tables.FOLDER}/"


def build_certificate(
    spec: ReleaseSpec, near: Neighbours, contents: Contents, charged: Charged, stated: Stated
) -> Certificate:
    """Return a certificate of all its sections.

    :mod:`tabularium.tasks.publish.verify_certificate` makes them again from a certificate and compares.
    """
    public = public_digests(contents.files)
    tallies = [attempts for _, _, attempts in charged.tried]
    withheld = [(notice.criterion, notice.consulted) for notice in charged.withheld]
    facts = facts_of_release(spec, charged.attempts, tallies, withheld)
    events, lists, methods = contents.events, _code_lists(spec, public), _methods(contents.tables)
    return Certificate(
        format=FORMAT,
        release_id=stated.release_id,
        product=spec.product,
        period=spec.period,
        revises=spec.revises,
        dataset=spec.dataset,
        about=spec.about,
        created=stated.created,
        outside_the_guarantee=tuple(
            schema.Fact(kind=fact.kind, name=fact.name, what=fact.what) for fact in facts
        ),
        privacy=_privacy(spec, near, events, charged),
        approval=approval_section(spec, charged.reservation),
        account=account_section(charged.reservation),
        allocation=allocation(spec),
        composition=composition(spec, events),
        ledger=_ledger(spec, charged, stated.measurements),
        measurements=schema.Measurements(
            digest=stated.measurements, withheld=spec.publication.measurements.withhold
        ),
        measured=measured(spec, events),
        audits=audited(spec),
        tallies=tuple(
            _tally(spec, tally, outcome)
            for tally, outcome in zip(spec.tallies, contents.tallies, strict=True)
        ),
        transcript=tuple(schema.Draw.of(event) for event in events),
        spec=published(spec),
        spec_digest=spec_digest(spec, {**public, **stated.lookups}),
        code_lists=lists,
        lookups=look_ups(spec, stated.lookups),
        domains=domains(spec, lists),
        validation=validation(spec, len(charged.tried)),
        tuning=tuning(spec),
        invariants=tuple(
            _invariant(spec, known, public, stated.numbers[known.name], contents.conflicts[known.name])
            for known in spec.invariants
        ),
        impossible=tuple(
            schema.Impossible.model_validate(cells.model_dump(mode="json")) for cells in spec.impossible
        ),
        tables=contents.tables,
        agreement=contents.agreement,
        postprocessing=postprocessing(spec, stated.postprocessing),
        confidence=spec.publication.confidence,
        margins={method: MEANING[method] for method in MEANING if method in methods},
        randomness=randomness(events),
        side_channels=SIDE_CHANNELS,
        security=security(kept=stated.workspace_kept),
        files=contents.files,
        software=stated.software,
        code=stated.code,
    )


def public_digests(files: dict[str, str]) -> dict[str, str]:
    """Return the digests of code lists and public numbers by name, from the digests of all files of a folder.

    And those of the certificates of earlier releases that tables were drawn towards.
    """
    public = {Path(name).name: digest for name, digest in files.items() if name.startswith(_PUBLIC)}
    for name, digest in files.items():
        if name.startswith(_PRIOR) and Path(name).name == CERTIFICATE:
            public[prior_tables.public_prior(Path(name).parent.name)] = digest
    return dict(sorted(public.items()))


def _privacy(spec: ReleaseSpec, near: Neighbours, events: list[Event], charged: Charged) -> schema.Privacy:
    """Return the privacy section: who is protected, and the guarantee."""
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


def _ledger(spec: ReleaseSpec, charged: Charged, measurements: str) -> schema.Charge:
    """Return the ledger section: the charge, and the newest entry of the ledger."""
    return schema.Charge(
        account=spec.dataset,
        amount=own_amount(spec),
        rests_on=rests_on(spec, measurements),
        definition=spec.privacy.definition,
        attempts=charged.attempts,
        tally_charges=tuple(
            schema.TallyCharge(number=number, release_id=name, amount=spec.tally_amount, attempts=attempts)
            for number, name, attempts in charged.tried
        ),
        withheld=tuple(schema.Withheld(**vars(draft)) for draft in charged.withheld),
        head=schema.Head.model_validate(charged.head.fields()),
    )


def _tally(spec: ReleaseSpec, tally: Tally, outcome: Outcome) -> schema.Tally:
    broken = {} if outcome.broken is None else {"broken": outcome.broken}
    return schema.Tally.model_validate({"number": outcome.number, **broken, **tally_about(spec, tally)})


def _code_lists(spec: ReleaseSpec, public: dict[str, str]) -> dict[str, str]:
    names = {published_name(column.code_list) for column in spec.columns.values() if column.code_list}
    return {name: digest for name, digest in public.items() if name in names}


def _invariant(
    spec: ReleaseSpec, known: Invariant, public: dict[str, str], numbers: int, conflicts: dict[str, int]
) -> schema.Invariant:
    along, level = along_of(spec, known)
    file = None if known.values is None else Path(known.values).name
    return schema.Invariant(
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


def _methods(tables: dict[str, schema.Table]) -> set[str]:
    return {
        margins.method
        for table in tables.values()
        for margins in [table.margins, *(measure.margins for measure in (table.measures or {}).values())]
    }


SIDE_CHANNELS = (
    schema.SideChannel(
        channel="low bits of floating-point noise",
        considered="Closed: noise is drawn and added in exact integers; no floating-point number stands "
        "between the random bits and a measured one.",
    ),
    schema.SideChannel(
        channel="a second draw of the same release",
        considered="Closed: the ledger is charged first, and complete measurements are kept and used "
        "again; the number of attempts is listed as outside the guarantee.",
    ),
    schema.SideChannel(
        channel="refusals, logs, messages, the orchestrator's database",
        considered="Why data were refused is shown only on the local terminal and in the home; that a "
        "run was refused, and in which stage, is seen by who sees runs, and no budget covers it.",
    ),
    schema.SideChannel(
        channel="running time and memory",
        considered="Seen only by operators, and listed as outside the guarantee; the samplers do not "
        "run in constant time, so that who can time a run on its machine may learn something of the noise.",
    ),
    schema.SideChannel(
        channel="digests of confidential data",
        considered="Closed: nothing public is a digest of the input, keyed or not; release ids do not "
        "depend on it.",
    ),
    schema.SideChannel(
        channel="order and existence of published cells",
        considered="Closed: the cells follow from the spec and its code lists, and all of them are "
        "published; those left blank are chosen from published numbers.",
    ),
    schema.SideChannel(
        channel="order in memory, hash seeds, what a process remembers",
        considered="Looked for: the replay audit compares runs on neighbours, in processes of their "
        "own, bit for bit under the same outputs of the noise.",
    ),
    schema.SideChannel(
        channel="anyone who can read the machine while it runs",
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


def randomness(events: list[Event]) -> schema.Randomness:
    """Return the source of random bits, and the samplers."""
    return schema.Randomness(
        generator="AES-256-CTR, one stream for each measurement",
        seeded_by="the operating system's generator, 256 fresh bits for a stream",
        predictable=False,
        keys_kept=False,
        arithmetic="exact integers",
        samplers=tuple(sorted({schema.Draw.of(event).primitive for event in events})),
    )


def security(*, kept: bool) -> schema.Security:
    """Return who could read the confidential data, and what is kept."""
    return schema.Security(workspace_mode="0700", workspace_kept=kept, words=_SECURITY)


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
    "similar than they are; `tables.NAME.above.differences` says by how much on average."
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
    "Cells are flagged or left blank only by published counts and margins. What is shown is selected by "
    "that: a mean over the cells that are left is biased upwards."
)


def domains(spec: ReleaseSpec, code_lists: dict[str, str]) -> dict[str, schema.Domain]:
    """Return the source of the cells of every column, which is never the data."""
    domains = {}
    for name, column in spec.columns.items():
        file = None if column.code_list is None else published_name(column.code_list)
        domains[name] = schema.Domain(
            kind=column.written_as,
            from_="the spec" if file is None else "a public code list",
            file=file,
            sha256=None if file is None else code_lists[file],
            nulls=column.nulls,
            invalid=column.invalid,
        )
    return domains


def look_ups(spec: ReleaseSpec, digests: dict[str, str]) -> tuple[schema.LookUp, ...]:
    """Return where columns were looked up: in public tables, by digest, and in tables of the privacy unit."""
    return tuple(
        schema.LookUp(
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


def validation(spec: ReleaseSpec, tried: int) -> schema.Validation:
    """Return the rules that judged the input, and those that were paid for, ``tried`` times."""
    rules = []
    for rule in spec.rules:
        noisy = isinstance(rule, RowCountRule) and rule.noisy is not None
        share = rule.noisy.share if isinstance(rule, RowCountRule) and rule.noisy is not None else 0
        rules.append(
            schema.Rule(
                rule=rule.name,
                severity=rule.severity,
                judged="a noisy number" if noisy else "exactly",
                charged=spec.privacy.budget * share * tried,
                outside_the_guarantee=not noisy and rule.severity == "stop",
            )
        )
    return schema.Validation(rules=tuple(rules), max_rejected=_limit(spec), max_rejected_charged="0")


def _limit(spec: ReleaseSpec) -> str:
    limit = spec.source.max_rejected
    return str(limit) if isinstance(limit, int) else f"{float(100 * limit):g}%"


def tuning(spec: ReleaseSpec) -> schema.Tuning:
    """Return which data were used to choose mechanisms and parameters: a published release, or none."""
    if spec.tuning is None:
        return schema.Tuning(data=(), words=f"{_TUNING}no data for it.")
    named = f"the published release {spec.tuning.release}, which costs nothing to look at, and no other data."
    on = schema.TunedOn(release=spec.tuning.release, certificate=spec.tuning.certificate)
    return schema.Tuning(data=(on,), words=f"{_TUNING}{named}")


def postprocessing(spec: ReleaseSpec, version: int) -> schema.PostProcessing:
    """Return the steps after the noise, in their order, and how each biases what is published."""
    does = spec.postprocessing
    cut = any(histogram.largest_size(spec.privacy) is not None for histogram in spec.histograms)
    towards = {table.prior for table in spec.tables} - {None}
    steps: list[tuple[schema.StepName, bool, str]] = [("mechanism", True, _FINISH)]
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
    return schema.PostProcessing(
        version=version,
        steps=tuple(schema.Step(step=step, done=done, bias=bias) for step, done, bias in steps),
    )


def certificate(
    run: Run,
    measured: MeasuredHandle,
    contents: Contents,
    ledger: Ledger,
    tried: list[tuple[int, str, int]],
) -> Certificate:
    """Return the certificate of a run; ``tried`` as in ``Charged``.

    Nothing in it is made from the input but the release itself: even a keyed digest would tell, by being the
    same as another's, that nobody was added in between.

    Raises
    ------
    PublicationError
        If the ledger does not know the release.
    """
    charge, reservation = ledger.charge(measured.release_id), ledger.reservation(measured.release_id)
    if charge is None or reservation is None:
        raise PublicationError(
            "the ledger does not know this release",
            where=f"release {measured.release_id}",
            hint="run the whole flow",
        )
    loaded, account = run.loaded, ledger.account(charge.account)
    deltas = [delta for delta in (loaded.spec.privacy.delta, account.terms.delta) if delta is not None]
    withheld = ledger.withheld(charge.account)
    head = stamped_head(run, ledger, measured.release_id)
    charged = Charged(
        *(account.population, charge.fence, head, list(dict.fromkeys(deltas)), tried, withheld, reservation)
    )
    near = neighbours(with_total_budget(loaded.spec, charged), loaded.domains)
    stated = Stated(
        release_id=measured.release_id,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        measurements=measured.digest,
        software={"python": platform.python_version(), **software_versions()},
        code=code_provenance(),
        postprocessing=VERSION,
        workspace_kept=loaded.spec.workspace.keep,
        numbers={known.name: known.values.size for known in loaded.known},
        lookups={
            name: digest
            for name, digest in loaded.public_files.items()
            if name in map(public_name, loaded.spec.lookups)
        },
    )
    return build_certificate(loaded.spec, near, contents, charged, stated)
