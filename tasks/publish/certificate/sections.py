"""The sections of a certificate in the order in which they are read; what is exact comes before ε."""

from __future__ import annotations

from pathlib import Path

from tabularium.mechanisms.accounting import Event
from tabularium.tasks.margins.error_model import MEANING
from tabularium.tasks.publish.certificate.account_section import account_section, approval_section
from tabularium.tasks.publish.certificate.certificate_parts import Charged, Contents, Outcome, Told
from tabularium.tasks.publish.certificate.declared import (
    domains,
    look_ups,
    postprocessing,
    tuning,
    validation,
)
from tabularium.tasks.publish.certificate.draws import audited, measured
from tabularium.tasks.publish.certificate.spending import (
    allocation,
    composition,
    conversion,
    own_amount,
    rests_on,
    whole,
)
from tabularium.tasks.publish.guarantee import privacy_section
from tabularium.validations import certificate as said
from tabularium.validations.certificate import CERTIFICATE, FORMAT, Certificate
from tabularium.validations.domains import known_marginals as prior_tables
from tabularium.validations.domains.code_lists import published_name
from tabularium.validations.spec.exact_facts import Neighbours, along_of, facts_of_release
from tabularium.validations.spec.load import published, spec_digest
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.privacy import Tally
from tabularium.validations.spec.summary import tally_about
from tabularium.validations.spec.tables import Invariant

_PUBLIC = ("codes/", "figures/", "invariants/")
_PRIOR = f"{prior_tables.FOLDER}/"


def stated(
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
    paid = whole(spec, charged)
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
