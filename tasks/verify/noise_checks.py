"""Whether the noise that is declared costs what was paid, draw by draw and in sum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import Definition, Event, PrivacyLoss, spent
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.tasks.publish.certificate.spending import own_amount
from tabularium.tasks.publish.guarantee import FIXED_PLANS
from tabularium.tasks.verify.certificate_checks import text_of
from tabularium.tasks.verify.remaking import described_in, transcript_of
from tabularium.tasks.verify.subject import Check, Failed, Skipped, Subject
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import Tally
from tabularium.validations.release_spec.tables import Table

_GROUP = "Privacy loss"
_FEW = (
    4096  # cells of a table that is measured as it is; the noise of larger ones does not depend on how many
)


def _adds_up(subject: Subject) -> str:
    spec, events = subject.released.spec, _events(subject)
    privacy, ledger = spec.privacy, subject.certificate.ledger
    tallies = {tally.purpose for tally in spec.tallies}
    for where, amount, own in (
        ("ledger.amount", spec.main_amount, [each for each in events if each.purpose not in tallies]),
        ("ledger.tally_charges", spec.tally_amount, [each for each in events if each.purpose in tallies]),
    ):
        cost = PrivacyLoss(spent(own), privacy.definition).for_unit(privacy.changed_records).amount
        if cost > amount:
            raise Failed(f"the transcript costs {cost} for one unit, and {where} paid {amount}")
    if ledger.amount != own_amount(spec):
        raise Failed("ledger.amount is not what the spec costs")
    told = subject.certificate.privacy.loss
    tries = max(len(ledger.tally_charges), 1)
    if told != spec.main_amount + tries * spec.tally_amount:
        raise Failed("the budget that is promised is not what the charges add up to")
    return f"{len(events)} draws cost {privacy.symbol} = {told} for one {privacy.unit.called}"


def _of_each_measurement(subject: Subject) -> str:
    """Every draw is what the mechanism makes of its share of the budget."""
    spec, events = subject.released.spec, _events(subject)
    shares = _shares(spec)
    for place, event in enumerate(events):
        cost = event.epsilon if event.definition == "pure" else event.rho
        if cost != event.loss or event.definition != spec.privacy.definition or event.width <= 0:
            raise Failed(f"draw {place + 1} ({event.purpose}) does not cost what it declares")
    compared, open_ = 0, []
    for table in spec.arrays:
        for level in table.levels or ("",):
            name = f"{table.name}/{level}" if level else table.name
            own = [each for each in events if f"{each.purpose}/".startswith(f"{name}/")]
            error = [each for each in events if each.purpose.startswith(f"error of {name}/")]
            for_error = shares[name] * (table.margin_share or 0)
            _see_error(name, error, for_error, spec)
            if spent(own) > shares[name] - for_error:
                raise Failed(f"the draws of {name} cost more than its share of the budget")
            if table.mechanism in FIXED_PLANS:
                shape = subject.released.layouts[table.name].measured_shape(level)
                planned = _planned(table, shape, shares[name] - for_error, spec.privacy.definition)
                told = [replace(each, purpose=each.purpose.removeprefix(f"{name}/")) for each in own]
                if _unlabelled(told) != _unlabelled(planned):
                    raise Failed(f"the noise of {name} is not what {table.mechanism} draws for its budget")
                compared += 1
            else:
                open_.append(name)
    for tally in spec.tallies:
        _see_tally(tally, [each for each in events if each.purpose == tally.purpose], spec)
    if open_:
        # What such a mechanism may change by one record depends on what it drew before: it is as it declares.
        raise Skipped(
            f"word of the sensitivities of {', '.join(open_)}, which the mechanism settles as it draws: they "
            f"are taken as declared, and their cost is what was paid; {compared} others follow from theirs"
        )
    return f"scales and sensitivities follow from the budget for {compared} measurements"


def _shares(spec: ReleaseSpec) -> dict[str, Fraction]:
    return {f"{name}/{level}" if level else name: loss for (name, level), loss in spec.losses.items()}


def _see_error(name: str, found: list[Event], loss: Fraction, spec: ReleaseSpec) -> None:
    """One record changes one sum of errors by 1, which is counted in parts."""
    if not loss and not found:
        return
    if len(found) != 1 or found[0].loss != loss or found[0].sensitivity != UNIT or found[0].width != 1:
        raise Failed(f"the error of {name} is not measured with its share of the budget")
    _see_primitive(found[0], spec)


def _see_tally(tally: Tally, found: list[Event], spec: ReleaseSpec) -> None:
    loss = spec.privacy.record_budget * tally.share
    bound = Fraction(tally.most, spec.privacy.changed_records)
    if len(found) != 1 or found[0].loss != loss or found[0].sensitivity != bound or found[0].shape != (1,):
        raise Failed(f"{tally.purpose} is not drawn with its share of the budget")


def _see_primitive(event: Event, spec: ReleaseSpec) -> None:
    wanted = "laplace" if spec.privacy.definition == "pure" else "gaussian"
    if not event.primitive.endswith(wanted):
        raise Failed(f"{event.purpose} is drawn by {event.primitive}")


def _planned(table: Table, shape: tuple[int, ...], loss: Fraction, definition: Definition) -> list[Event]:
    """Return what a mechanism whose draws are settled beforehand writes down: it measures nothing, seeded."""
    whole = (table.parameters["axis"],) if "by_group" in table.parameters else ()
    small = shape if prod(shape) <= _FEW else tuple(n if a in whole else 1 for a, n in enumerate(shape))
    channel = SeededChannel(loss, seed="plan", definition=definition)
    build(table.mechanism, **table.parameters).measure(np.zeros(small, np.int64), channel)
    # Groups with noise of their own are drawn one by one.
    drawn, large = (tuple(1 if a in whole else n for a, n in enumerate(each)) for each in (small, shape))
    return [replace(each, shape=large if each.shape == drawn else each.shape) for each in channel.transcript]


def _unlabelled(events: list[Event]) -> list[Event]:
    """Return events without the labels of their sources, by which parallel scopes are named."""
    return [
        replace(each, branches=tuple((name.rpartition(".")[2], place) for name, place in each.branches))
        for each in events
    ]


def _same_draws(subject: Subject) -> str:
    """The transcript is that of the measurements that are published."""
    entries = described_in(subject)
    drawn = [event for entry in entries.values() for event in transcript_of(entry)]
    tallies = len(subject.released.spec.tallies)
    if text_of([each.document() for each in subject.certificate.transcript[tallies:]]) != text_of(drawn):
        raise Failed("the transcript is not that of the published measurements")
    return f"{len(entries)} measurements"


def _events(subject: Subject) -> list[Event]:
    return [draw.event for draw in subject.certificate.transcript]


CHECKS = (
    Check(_GROUP, "the transcript, added up by the accounting, costs what was charged", _adds_up),
    Check(_GROUP, "noise scales follow from budgets and sensitivities", _of_each_measurement),
    Check(_GROUP, "the published measurements were drawn as the transcript says", _same_draws),
)
