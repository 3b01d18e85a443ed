"""Tallies: noisy numbers of privacy units for noisy rules, and of units that were cut.

Tallies have a charge of their own, made and drawn before the main one, so that a rule that fails stops the
run before the main charge is made. What a tally charge costs is spent whatever the rules say.

The proof. To a tally each unit adds a number from 0 to m, only by its own records
(:mod:`tabularium.tasks.count.contributions`), with m = 1 but for the records that are left out: one unit
changes it by at most m. A unit changes at most k records, and a channel is opened for a record, with ε/k or
ρ/k². So a tally is drawn with a declared sensitivity of m/k for each record. Its noise has the scale
(m/k)/(ε/k) = m/ε, or the variance (m²/k²)/(2ρ/k²) = m²/(2ρ), and it costs one unit k·(ε/k) = ε, or k²·(ρ/k²)
= ρ: what the accounting says of the event for a group of k records. Tallies and main charge compose
sequentially: their amounts add to the budget of the spec. To compare a noisy number with bounds, or with what
was published before, is post-processing: the failure of a rule is public.

A release draws a number once for each input and never again; an edited spec is another release, and pays for
another number. A corrected input is another one, and pays for another *attempt*: the name of its
charge is a keyed function of the release id and the number of the attempt, and the home binds each attempt to
its input (:mod:`tabularium.tasks.input_binding`). Every attempt is a charge of its own: sequential
composition again, and the certificate adds all of them to the cost of the release. Several attempts show that
the input changed, which no budget covers: the certificate names it as outside the guarantee.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import count as numbers_from
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from tabularium.ledger import BudgetExhausted, Charge, WrongState
from tabularium.ledger.measurement.measure_once import measure_once
from tabularium.ledger.measurement.release_lock import hold
from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.errors import DataRefused, LedgerError, PublicationError, RuleFailed
from tabularium.tasks.count.count_files import CountsHandle
from tabularium.tasks.ingest.ingest import InputHandle
from tabularium.tasks.input_binding import is_bound, require_bound
from tabularium.tasks.ledger_stages import ChargeHandle, MeasuredHandle, ledger_against_store, reserve_for
from tabularium.tasks.measure import drawing_tallies
from tabularium.tasks.publish.certificate.spending import Outcome
from tabularium.tasks.publish.verify_certificate import last_number
from tabularium.tasks.published_heads import require_new, stamped_head, write_head_marker
from tabularium.tasks.runtime.progress import note, stopping
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.release_spec.privacy import RowCountRule, Tally
from tabularium.validations.release_spec.summary import tally_about
from tabularium.validations.suites.microdata import CHANGE, around

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

_SPENT = {"drawing", "measured", "published", "abandoned"}


@dataclass(frozen=True)
class Drawn:
    """A drawn tally.

    ``number``: with noise; it may be below zero.
    """

    tally: Tally
    number: int
    event: Event


def afford_tallies(run: Run, charge: ChargeHandle) -> None:
    """Refuse, before any data are read, a budget that cannot pay for tables and a first tally.

    Raises
    ------
    BudgetExhausted
        If less is left than both charges cost.
    """
    if not run.loaded.spec.tally_share:
        return
    ledger = run.ledger
    _, first = next(_names(run))
    if ledger.charge(first) is None:
        _afford(run, ledger, charge, to_draw=True)


def check_tallies(run: Run, charge: ChargeHandle, source: InputHandle) -> None:
    """Refuse, before anything is counted, an input whose tallies could not be drawn or paid.

    Raises
    ------
    DataRefused
        If less is left than is still to be paid, if the attempt was given up, if it may have been drawn from
        another input, or was drawn under another ledger. Which attempt it is depends on the input.
    """
    if not run.loaded.spec.tally_share:
        return
    ledger = run.ledger
    with _refused_at_home():
        name = _attempt(run, source)
        require_new(run, ledger, name)
        known = ledger.charge(name)
        if known is not None and known.state in {"voided", "abandoned"}:
            raise WrongState(
                f"the tallies of this input were {known.state}",
                where=f"release {name}",
                hint="publish another period or spec, or a revision (--revises REASON): each is a new charge",
            )
        drawing = known is not None and known.state != "reserved"
        require_bound(run.installation, name, source.digest, drawing=drawing)
        if known is not None and known.state == "drawing" and not run.store.complete(name, known.fence):
            ledger.precheck_drawing(name)
        _afford(run, ledger, charge, to_draw=known is None)


def _afford(run: Run, ledger: Ledger, charge: ChargeHandle, *, to_draw: bool) -> None:
    spec = run.loaded.spec
    cost = spec.main_amount if charge.state == "new" else Fraction()
    cost += spec.tally_amount if to_draw else Fraction()
    left = ledger.balance(spec.dataset)
    if left < cost:
        raise BudgetExhausted(
            f"the release with its tallies costs {cost} and {left} is left",
            where=f"account {spec.dataset}",
            hint="lower privacy.budget in the spec, or ask the disclosure officer",
        )


@contextmanager
def _refused_at_home() -> Iterator[None]:
    """Show the ledger's refusal of an attempt only at home: it tells whether an input was tried before."""
    try:
        yield
        return
    except LedgerError as error:
        raise DataRefused(error.what, where=error.where, hint=error.hint) from None


@stage("tally")
def tally(
    run: Run, charge: ChargeHandle, source: InputHandle, counts: CountsHandle | None
) -> MeasuredHandle | None:
    """Draw the tallies of this input once, and judge the noisy rules by them; None without tallies.

    Without ``counts`` the main charge is drawn, so that the rules held for this input.

    Raises
    ------
    RuleFailed
        If a noisy rule of severity stop fails. Its number is private already, but that it is the same one
        again would say that the input is.
    DataRefused
        If the ledger refuses the charge, or there is nothing to draw from.
    """
    if not run.loaded.spec.tally_share:
        return None
    with _refused_at_home(), ExitStack() as held:
        ledger = held.enter_context(ledger_against_store(run))
        if counts is None:
            name, draw = _drawn_for(run, ledger, source), None
        else:
            check_tallies(run, charge, source)
            name, draw = _attempt(run, source), drawing_tallies(run, counts)
        held.enter_context(hold(ledger, name))
        if counts is not None:
            reserve_for(run, ledger, source, name, run.loaded.spec.tally_amount)
        stored = measure_once(
            ledger,
            run.store,
            name,
            draw,
            announce=lambda: write_head_marker(run, name, stamped_head(run, ledger, name)),
            asked_to_stop=lambda: stopping.requested() is not None,
        )
    handle = MeasuredHandle(name, stored.fence, stored.digest, name)
    if counts is not None:
        _judge(run, drawn(run, handle))
    return handle


def drawn(run: Run, handle: MeasuredHandle) -> list[Drawn]:
    """Read the tallies of a measured charge back. Sees no true number.

    Raises
    ------
    PublicationError
        If they were drawn with predictable noise.
    """
    stored = run.store.read(handle.release_id, handle.fence, digest=handle.digest)
    parts = [stored.parts[tally.purpose] for tally in run.loaded.spec.tallies]
    if any(part.meta["insecure"] for part in parts):
        raise PublicationError(
            "these tallies were drawn from a seeded stream and protect nobody",
            where=f"release {handle.release_id}",
            hint="draw them with the secure channel",
        )
    return [
        Drawn(tally, int(part.arrays["number"][0]), Event.from_dict(part.meta["event"]))
        for tally, part in zip(run.loaded.spec.tallies, parts, strict=True)
    ]


def attempts(run: Run, ledger: Ledger) -> list[tuple[int, Charge]]:
    """Return the spent charges of a release's attempts, with their numbers."""
    every = ((number, ledger.charge(name)) for number, name in _names(run))
    known = takewhile(lambda pair: pair[1] is not None, every)
    return [(number, charge) for number, charge in known if charge is not None and charge.state in _SPENT]


def outcomes(run: Run, draws: list[Drawn]) -> list[Outcome]:
    """Return the outcomes of tallies in the certificate: numbers, and broken rules.

    A rule that stops the run held before the main charge. It is not judged again: the release that it was
    compared with may have been revised or withdrawn since.
    """
    rules = {rule.name: rule for rule in run.loaded.spec.rules}

    def broken(tally: Drawn) -> tuple[str, ...] | None:
        rule = rules.get(tally.tally.of)
        if rule is None:
            return None
        return () if rule.severity == "stop" else tuple(name for name, _ in _broken(run, rule, tally.number))

    return [Outcome(tally.number, broken(tally)) for tally in draws]


def _judge(run: Run, draws: list[Drawn]) -> None:
    spec = run.loaded.spec
    rules = {rule.name: rule for rule in spec.rules}
    things = spec.privacy.counted_things
    for draw in draws:
        rule = rules.get(draw.tally.of)
        if rule is None:
            continue
        for name, why in _broken(run, rule, draw.number):
            margin = tally_about(spec, draw.tally)["margin"]
            message = f"the noisy number of {things}, {draw.number:,} ± {margin:,}, {why}"
            if rule.severity == "warn":
                note(f"{message} (rule {name}), which only warns")
                continue
            raise RuleFailed(
                message,
                where=f"rule {name}",
                hint="correct the source, or the rule, which makes another release: either pays for another "
                "noisy number, and what this one cost stays spent",
            )


def _broken(run: Run, rule: Any, number: int) -> Iterator[tuple[str, str]]:
    """Yield (name, reason) of each part of a rule that a noisy number breaks."""
    assert isinstance(rule, RowCountRule)  # noqa: S101 - no other rule is noisy
    if rule.min is not None and number < rule.min:
        yield rule.name, f"is below {rule.min:,}"
    if rule.max is not None and number > rule.max:
        yield rule.name, f"is above {rule.max:,}"
    if rule.change_from_last is None:
        return
    last = last_number(run, rule.name, run.loaded.spec.privacy.counted_things)
    if last is None:
        return
    low, high = around(last, rule.change_from_last)
    if not low <= number <= high:
        yield CHANGE, f"is not within {float(100 * rule.change_from_last):g} % of the {last:,} published last"


def _drawn_for(run: Run, ledger: Ledger, source: InputHandle) -> str:
    """Return the attempt that judged the input of the drawn main charge.

    Where the home has lost which input that is, a single attempt must be it; of several none is taken.
    """
    spent = attempts(run, ledger)
    if len(spent) == 1:
        return spent[0][1].release_id
    name = _attempt(run, source)
    for drawn_as in (run.release_id, name):
        require_bound(run.installation, drawn_as, source.digest, drawing=True)
    return name


def _attempt(run: Run, source: InputHandle) -> str:
    """Return the name of the attempt bound to this input, or of the first unbound one."""
    return next(
        name for _, name in _names(run) if is_bound(run.installation, name, source.digest) is not False
    )


def _names(run: Run) -> Iterator[tuple[int, str]]:
    """Yield number and name of every attempt."""
    key = run.installation.subkey("tally charge")
    for number in numbers_from(1):
        yield number, hmac.digest(key, f"{run.measurements_from} {number}".encode(), "sha256").hex()[:32]
