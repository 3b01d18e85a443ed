"""Checks of the certificate: its schema, spec, code lists, measurements, documents and privacy loss."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from importlib import metadata
from math import prod
from pathlib import PurePath
from typing import Any

import numpy as np

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import Definition, Event, PrivacyLoss, spent
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import TabulariumError
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.tasks.publish.certificate.spending import own_amount
from tabularium.tasks.publish.documents import DOCUMENTS
from tabularium.tasks.publish.formats.base import formats_of
from tabularium.tasks.publish.guarantee import FIXED_PLANS
from tabularium.tasks.publish.measurement_files import FOLDER, INDEX
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.runtime.extras import DISTRIBUTION
from tabularium.tasks.verify.subject import Check, Failed, Skipped, Subject, described_in, transcript_of
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.domains.known_marginals import FOLDER as FOLDER_OF_PRIORS
from tabularium.validations.release_spec.load import spec_digest
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import Tally
from tabularium.validations.release_spec.publication_formats import FORMATS, files_of
from tabularium.validations.release_spec.tables import Table

_GROUP, _DOCUMENTS = "Certificate", "Documents"
EXCEPTIONS = "rounding_exceptions.txt"
_BEGINS = {".html": b"<!doctype html>", ".xml": b"<?xml "}
"""Ending of a document -> how it begins; every other is JSON."""


def _spec(subject: Subject) -> None:
    try:
        subject.read_spec()
    except TabulariumError as error:
        raise Failed(error.what) from None


def _lists(subject: Subject) -> str:
    released, named = subject.released, subject.certificate.code_lists
    public = released.loaded.public_files
    lists = [column.code_list for column in released.spec.columns.values() if column.code_list]
    for name in dict.fromkeys(lists):
        if public.get(name) != named.get(name):
            raise Failed(f"the code list {name} is not the one that the certificate names")
    if spec_digest(released.spec, public) != subject.certificate.spec_digest:
        raise Failed("spec, code lists and invariants do not have the digest that the certificate names")
    return f"{len(set(lists))} code lists, {len(released.spec.invariants)} invariants"


def _names(subject: Subject) -> str:
    """The certificate names the files of a release of its spec, and no others."""
    spec, named = subject.released.spec, subject.certificate.files
    wanted = files_of(spec)
    wanted |= {f"codes/{column.code_list}" for column in spec.columns.values() if column.code_list}
    wanted |= {f"invariants/{known.values}" for known in spec.invariants if known.values}
    wanted |= {f"figures/{figure.values}" for figure in spec.figures if figure.values}
    for prior in subject.released.loaded.priors.values():
        wanted |= {f"{FOLDER_OF_PRIORS}/{prior.release}/{name}" for name in (CERTIFICATE, prior.file)}
    if spec.publication.measurements.withhold is None:
        arrays = [entry["arrays"].values() for entry in subject.index["measurements"]]
        wanted |= {f"{FOLDER}/{INDEX}", *(f"{FOLDER}/{one['file']}" for array in arrays for one in array)}
    if subject.certificate.software.get(DISTRIBUTION) == metadata.version(DISTRIBUTION):
        wanted |= DOCUMENTS.keys()
    missing = sorted(wanted - named.keys())
    if missing:
        raise Failed(f"it does not name {missing[0]}")
    unknown = [name for name in spec.publication.formats if name not in FORMATS]
    if unknown:
        raise Skipped(f"the format {unknown[0]}: install the package that brings it")
    foreign = sorted(named.keys() - wanted - DOCUMENTS.keys() - {EXCEPTIONS})
    if foreign:
        raise Failed(f"it names {foreign[0]!a}, which has no place in a release")
    return f"{len(named)} files"


def _itself(subject: Subject) -> None:
    try:
        verify_certificate(subject.folder / CERTIFICATE, domains=subject.released.domains)
    except TabulariumError as error:
        raise Failed(error.what) from None


def _of_this_release(subject: Subject) -> str:
    """Each document has the type of its name, and names its release."""
    spec, release = subject.released.spec, subject.certificate.release_id
    wanted = dict.fromkeys(("bill-of-materials.cdx.json", "report.html"), release)
    for format_ in formats_of(spec):
        wanted |= format_.identities(subject.released.loaded)
    there = [name for name in wanted if name in subject.certificate.files]
    for name in there:
        begin = _BEGINS.get(PurePath(name).suffix)
        if begin is None:
            subject.document(name)
        elif not subject.read(name).startswith(begin):
            raise Failed(f"{name} is not what its name says")
        if wanted[name].encode() not in subject.read(name):
            raise Failed(f"{name} is not of this release")
    return f"{len(there)} documents"


def text_of(value: Any) -> str:
    """Return a value in its canonical form, for comparison."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


CHECKS = (
    Check(_GROUP, "its spec can be read, with the code lists and invariants next to it", _spec),
    Check(_GROUP, "spec, code lists and invariants are the ones that it names", _lists),
    Check(_GROUP, "it names the files that such a release has, and no others", _names),
    Check(_GROUP, "it fits itself: what follows from spec, transcript and digests is what it says", _itself),
    Check(_DOCUMENTS, "they are of the kinds that their names say, and of this release", _of_this_release),
)


# The declared noise costs what was paid, draw by draw and in sum.


_LOSS = "Privacy loss"
_FEW = (
    4096  # cells of a table that is measured as it is; the noise of larger ones does not depend on how many
)


def _adds_up(subject: Subject) -> str:
    spec, events = subject.released.spec, _events(subject)
    privacy, ledger = spec.privacy, subject.certificate.ledger
    tallies = {tally.purpose for tally in spec.tallies}
    for where, amount, draws in (
        ("ledger.amount", spec.main_amount, [event for event in events if event.purpose not in tallies]),
        ("ledger.tally_charges", spec.tally_amount, [event for event in events if event.purpose in tallies]),
    ):
        cost = PrivacyLoss(spent(draws), privacy.definition).for_unit(privacy.changed_records).amount
        if cost > amount:
            raise Failed(f"the transcript costs {cost} for one unit, and {where} paid {amount}")
    if ledger.amount != own_amount(spec):
        raise Failed("ledger.amount is not what the spec costs")
    loss = subject.certificate.privacy.loss
    tries = max(len(ledger.tally_charges), 1)
    if loss != spec.main_amount + tries * spec.tally_amount:
        raise Failed("the budget that is promised is not what the charges add up to")
    return f"{len(events)} draws cost {privacy.symbol} = {loss} for one {privacy.unit.called}"


def _of_each_measurement(subject: Subject) -> str:
    """Every draw follows from the mechanism and its share of the budget."""
    spec, events = subject.released.spec, _events(subject)
    shares = _shares(spec)
    for index, event in enumerate(events):
        cost = event.epsilon if event.definition == "pure" else event.rho
        if cost != event.loss or event.definition != spec.privacy.definition or event.width <= 0:
            raise Failed(f"draw {index + 1} ({event.purpose}) does not cost what it declares")
    compared, open_ = 0, []
    for table in spec.arrays:
        for level in table.levels or ("",):
            name = f"{table.name}/{level}" if level else table.name
            draws = [event for event in events if f"{event.purpose}/".startswith(f"{name}/")]
            error = [event for event in events if event.purpose.startswith(f"error of {name}/")]
            for_error = shares[name] * (table.margin_share or 0)
            _see_error(name, error, for_error, spec)
            if spent(draws) > shares[name] - for_error:
                raise Failed(f"the draws of {name} cost more than its share of the budget")
            if table.mechanism in FIXED_PLANS:
                shape = subject.released.layouts[table.name].measured_shape(level)
                planned = _planned(table, shape, shares[name] - for_error, spec.privacy.definition)
                drawn = [replace(draw, purpose=draw.purpose.removeprefix(f"{name}/")) for draw in draws]
                if _unlabelled(drawn) != _unlabelled(planned):
                    raise Failed(f"the noise of {name} is not what {table.mechanism} draws for its budget")
                compared += 1
            else:
                open_.append(name)
    for tally in spec.tallies:
        _see_tally(tally, [event for event in events if event.purpose == tally.purpose], spec)
    if open_:
        # What such a mechanism may change by one record depends on what it drew before: it is as it declares.
        raise Skipped(
            f"word of the sensitivities of {', '.join(open_)}, which the mechanism settles as it draws: they "
            f"are taken as declared, and their cost is what was paid; {compared} others follow from theirs"
        )
    return f"scales and sensitivities follow from the budget for {compared} measurements"


def _shares(spec: ReleaseSpec) -> dict[str, Fraction]:
    return {f"{name}/{level}" if level else name: loss for (name, level), loss in spec.losses.items()}


def _see_error(name: str, draws: list[Event], loss: Fraction, spec: ReleaseSpec) -> None:
    """Check the draw of a measured error: one record changes one sum of errors by 1, counted in parts."""
    if not loss and not draws:
        return
    if len(draws) != 1 or draws[0].loss != loss or draws[0].sensitivity != UNIT or draws[0].width != 1:
        raise Failed(f"the error of {name} is not measured with its share of the budget")
    _see_primitive(draws[0], spec)


def _see_tally(tally: Tally, draws: list[Event], spec: ReleaseSpec) -> None:
    loss = spec.privacy.record_budget * tally.share
    bound = Fraction(tally.most, spec.privacy.changed_records)
    if len(draws) != 1 or draws[0].loss != loss or draws[0].sensitivity != bound or draws[0].shape != (1,):
        raise Failed(f"{tally.purpose} is not drawn with its share of the budget")


def _see_primitive(event: Event, spec: ReleaseSpec) -> None:
    wanted = "laplace" if spec.privacy.definition == "pure" else "gaussian"
    if not event.primitive.endswith(wanted):
        raise Failed(f"{event.purpose} is drawn by {event.primitive}")


def _planned(table: Table, shape: tuple[int, ...], loss: Fraction, definition: Definition) -> list[Event]:
    """Return the transcript of a mechanism whose draws are fixed beforehand, from a seeded run on zeros."""
    grouped = (table.parameters["axis"],) if "by_group" in table.parameters else ()
    small = shape if prod(shape) <= _FEW else tuple(n if a in grouped else 1 for a, n in enumerate(shape))
    channel = SeededChannel(loss, seed="plan", definition=definition)
    build(table.mechanism, **table.parameters).measure(np.zeros(small, np.int64), channel)
    # Groups with noise of their own are drawn one by one.
    drawn, large = (tuple(1 if a in grouped else n for a, n in enumerate(sizes)) for sizes in (small, shape))
    return [replace(draw, shape=large if draw.shape == drawn else draw.shape) for draw in channel.transcript]


def _unlabelled(events: list[Event]) -> list[Event]:
    """Return events without the labels of their sources, which name parallel scopes."""
    return [
        replace(event, branches=tuple((name.rpartition(".")[2], branch) for name, branch in event.branches))
        for event in events
    ]


def _same_draws(subject: Subject) -> str:
    """The transcript is that of the measurements that are published."""
    entries = described_in(subject)
    drawn = [event for entry in entries.values() for event in transcript_of(entry)]
    tallies = len(subject.released.spec.tallies)
    if text_of([event.document() for event in subject.certificate.transcript[tallies:]]) != text_of(drawn):
        raise Failed("the transcript is not that of the published measurements")
    return f"{len(entries)} measurements"


def _events(subject: Subject) -> list[Event]:
    return [draw.event for draw in subject.certificate.transcript]


NOISE_CHECKS = (
    Check(_LOSS, "the transcript, added up by the accounting, costs what was charged", _adds_up),
    Check(_LOSS, "noise scales follow from budgets and sensitivities", _of_each_measurement),
    Check(_LOSS, "the published measurements were drawn as the transcript says", _same_draws),
)
