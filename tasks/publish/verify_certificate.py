"""Verification of a certificate against the ledger or itself, for every command that reads one.

With the ledger's entry for the charge there is nothing to guess: it holds the SHA-256 of the certificate,
the account, product, period, amount, spec digest, measurement digest and number of attempts; each
is compared. An edit anywhere shows, and is named where it can be.

Without a ledger a certificate is held against itself. All that follows from its spec, its transcript and
the digests of its files is worked out again, by the functions that wrote it, and the losses of the
transcript are added up against the budget of each measurement. What cannot be seen so is what nothing else
implies: the release id, the time, the head, the digests of the measurements and of files that are not at
hand, versions of software, the sampler, shape and lattice of a draw that costs the same, and what noise
decided (totals, tallies within the bounds of their rule, margins, failed checks, agreement, how many numbers
of an invariant were compared). Who changes the number of attempts in both of its
places is not seen either. Texts are compared where this version wrote them.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from tabularium.ledger import Charge, Head, Withheld
from tabularium.mechanisms.accounting import Event, spent
from tabularium.mechanisms.accounting.transcript import Primitive
from tabularium.mechanisms.errors import PublicationError, TabulariumError
from tabularium.tasks.publish.certificate import (
    NAMED,
    Charged,
    Contents,
    Outcome,
    Stated,
    build_certificate,
    own_version,
    with_total_budget,
)
from tabularium.tasks.publish.certificate.spending import budgets, by_measurement, reservation_in, unfit
from tabularium.tasks.publish.guarantee import FIXED_PLANS
from tabularium.tasks.publish.release_folder import certificate_at, check_release, damaged
from tabularium.tasks.published_heads import StampedHead
from tabularium.tasks.runtime.extras import DISTRIBUTION
from tabularium.tasks.runtime.run import Run
from tabularium.validations import certificate as schema
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.domains.code_lists import published_name
from tabularium.validations.domains.domains import Domain
from tabularium.validations.public_files import Unreadable, json_object
from tabularium.validations.release_spec.checks.column_checks import check_columns
from tabularium.validations.release_spec.checks.table_checks import MECHANISM
from tabularium.validations.release_spec.exact_facts import Neighbours, neighbours
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.privacy import RowCountRule
from tabularium.validations.release_spec.publication_formats import files_of
from tabularium.validations.release_spec.tables import Histogram, Table
from tabularium.validations.release_spec.yaml_lines import Document
from tabularium.validations.suites.microdata import CHANGE
from tabularium.validations.universes.universe import counted_in

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

_TEXTS = (
    *("outside_the_guarantee", "margins", "reading", "words", "distribution", "bias", "side_channels"),
    *("audits", "randomness"),
)
_MALFORMED = (
    *(OSError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(ValidationError, TabulariumError),
)
_LEDGER = "differs from the ledger"
_ITSELF = "does not fit the rest of the certificate"


def verify_certificate(
    path: Path, charge: Charge | None = None, domains: Mapping[str, Domain] | None = None
) -> Certificate:
    """Return a certificate, verified as far as this home allows.

    Parameters
    ----------
    path
        The ``certificate.json``, in its release folder or by itself.
    charge
        What the ledger, or an export of it, holds of this release; None where there is neither. While it is
        not published yet the ledger does not hold the certificate's digest, and all else is compared.
    domains
        Of the columns, where they are known; else they are made of the spec and the code lists at hand.

    Raises
    ------
    PublicationError
        Naming the first field that is not what it should be.
    """
    raw, certificate = certificate_at(path)
    try:
        known = charge is not None and charge.state == "published"
        if charge is not None:
            _compare_with_ledger(path, certificate, charge)
            if known and hashlib.sha256(raw).hexdigest() == charge.publication_digest:
                _adds_up(path, ReleaseSpec.model_validate(certificate.spec), _events(certificate))
                return certificate
        _compare_with_itself(path, raw, certificate, domains)
        if not known:
            return certificate
    except PublicationError:
        raise
    except Unreadable as error:
        raise damaged(path.parent, str(error)) from None
    except _MALFORMED:
        raise forged(path, "is missing or altered: it is no certificate of this program") from None
    raise forged(path, "the certificate differs from the one the ledger knows")


def _events(certificate: Certificate) -> list[Event]:
    return [draw.event for draw in certificate.transcript]


def head_in(certificate: Certificate) -> Head:
    """Return the head of the ledger that a certificate names."""
    return Head(certificate.ledger.head.seq, certificate.ledger.head.hash)


def _compare_with_ledger(path: Path, certificate: Certificate, charge: Charge) -> None:
    """Compare a certificate with the fields of its charge."""
    ledger = certificate.ledger
    for field, theirs, ours in (
        ("release_id", certificate.release_id, charge.release_id),
        ("dataset", certificate.dataset, charge.account),
        ("ledger.account", ledger.account, charge.account),
        ("product", certificate.product, charge.product),
        ("period", certificate.period, charge.period),
        ("ledger.amount", ledger.amount, charge.amount),
        ("ledger.rests_on", ledger.rests_on and ledger.rests_on.release_id, charge.measurements_of),
        ("ledger.attempts", ledger.attempts, charge.fence),
        ("spec_digest", certificate.spec_digest, charge.spec_digest),
        ("measurements.digest", certificate.measurements.digest, charge.measurement_digest),
    ):
        if theirs != ours:
            raise forged(path, f"{field} {_LEDGER}")


def _compare_with_itself(
    path: Path, raw: bytes, certificate: Certificate, domains: Mapping[str, Domain] | None
) -> None:
    """Compute again what follows from the spec, the transcript and the digests, and compare."""
    spec = ReleaseSpec.model_validate(certificate.spec)
    privacy, ledger = certificate.privacy, certificate.ledger
    population = privacy.unit.population
    if spec.privacy.unit.population not in (None, population):
        raise forged(path, f"privacy.unit.population {_ITSELF}")
    events = _events(certificate)
    deltas = [bound.delta for bound in privacy.epsilon_delta or ()]
    if deltas[:1] != [delta for delta in (spec.privacy.delta,) if delta is not None]:
        raise forged(path, f"privacy.epsilon_delta {_ITSELF}")
    stated = Stated(
        release_id=certificate.release_id,
        created=certificate.created,
        measurements=certificate.measurements.digest,
        software=certificate.software,
        code=certificate.code,
        postprocessing=certificate.postprocessing.version,
        workspace_kept=certificate.security.workspace_kept,
        numbers={invariant.name: invariant.numbers for invariant in certificate.invariants},
        lookups=certificate.public_look_ups,
    )
    conflicts = {
        invariant.name: {"compared": invariant.compared, "beyond_chance": invariant.beyond_chance}
        for invariant in certificate.invariants
    }
    outcomes = [Outcome(tally.number, tally.broken) for tally in certificate.tallies]
    contents = Contents(
        certificate.tables, events, certificate.files, certificate.agreement, conflicts, outcomes
    )
    tried = [(charge.number, charge.release_id, charge.attempts) for charge in ledger.tally_charges]
    withheld = [Withheld(**dict(draft)) for draft in ledger.withheld]
    head = StampedHead(head_in(certificate), ledger.head.chain, ledger.head.mac)
    charged = Charged(population, ledger.attempts, head, deltas, tried, withheld, reservation_in(certificate))
    if bool(tried) != bool(spec.tallies):
        raise forged(path, f"ledger.tally_charges {_ITSELF}")
    expected = build_certificate(
        spec,
        _nearest(
            with_total_budget(spec, charged),
            _domains(path.parent, spec) if domains is None else domains,
            privacy,
        ),
        contents,
        charged,
        stated,
    )
    texts = () if certificate.software.get(DISTRIBUTION) == own_version() else _TEXTS
    different = next(differences(expected.document(), json_object(raw), texts), None) or unfit(
        certificate, spec
    )
    if different is not None:
        raise forged(path, f"{different} {_ITSELF}")
    _adds_up(path, spec, events)
    _judged(path, spec, certificate)
    _tables_are_those_of(path, spec, certificate)
    if certificate.software.keys() | {"prefect"} != NAMED:
        raise forged(path, f"software {_ITSELF}")


def _nearest(spec: ReleaseSpec, domains: Mapping[str, Domain], privacy: schema.Privacy) -> Neighbours:
    """Return the neighbouring inputs; the certificate's where its code lists are not at hand."""
    if all(name in domains for table in spec.tables for name in table.dimensions):
        return neighbours(spec, domains)
    near = privacy.neighbours
    return Neighbours.of(near.change, near.units, near.fixed, spec.privacy)


def _domains(folder: Path, spec: ReleaseSpec) -> dict[str, Domain]:
    names = [column.code_list for column in spec.columns.values() if column.code_list]
    if any(Path(name).name != name for name in names):
        raise ValueError("a code list lies elsewhere")
    draft = PartialSpec(Document("", {}), columns=dict(spec.columns))
    check_columns(draft, folder / "codes")
    return draft.domains


def differences(expected: Any, actual: Any, texts: tuple[str, ...] = (), name: str = "") -> Iterator[str]:
    """Yield the names of fields that are not as expected; fields named in ``texts`` are not compared."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            inner = f"{name}.{key}" if name else str(key)
            if key not in expected or key not in actual:
                yield inner
            elif key not in texts:
                yield from differences(expected[key], actual[key], texts, inner)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, texts, f"{name}[{index}]")
    elif isinstance(expected, float) and isinstance(actual, float):
        if not math.isclose(expected, actual, rel_tol=1e-9):
            yield name
    elif type(expected) is not type(actual) or expected != actual:
        yield name


def _adds_up(path: Path, spec: ReleaseSpec, events: list[Event]) -> None:
    """Check that the transcript is paid for, draw by draw and measurement by measurement.

    A draw declares what its noise costs, exactly. Where every draw is settled before the first, their sum is
    the budget of the measurement; others may leave something of it.
    """
    fixed = {table.name for table in spec.arrays if table.mechanism in FIXED_PLANS}
    fixed |= {tally.purpose for tally in spec.tallies}
    draws = by_measurement(spec, events)
    for index, event in enumerate(events):
        cost = event.epsilon if event.definition == "pure" else event.rho
        known = event.primitive in get_args(Primitive) and event.definition == spec.privacy.definition
        if not known or cost != event.loss:
            raise forged(path, f"transcript[{index}] does not cost what it declares")
        if event in draws[""]:
            raise forged(path, f"transcript[{index}].purpose {_ITSELF}")
    for purpose, loss in budgets(spec).items():
        cost = spent(draws[purpose])
        if not 0 < cost <= loss or (cost < loss and purpose.partition("/")[0] in fixed):
            what = f"the transcript of {purpose} adds up to {cost} per record, and its budget is {loss}"
            raise forged(path, what)


def _judged(path: Path, spec: ReleaseSpec, certificate: Certificate) -> None:
    """Check that noisy rules and invariants have outcomes that a release allows and their numbers imply."""
    rules = {rule.name: rule for rule in spec.rules if isinstance(rule, RowCountRule)}
    for index, tally in enumerate(certificate.tallies):
        rule = rules.get(tally.of)
        if rule is None:
            continue
        low, high = rule.min, rule.max
        outside = (low is not None and tally.number < low) or (high is not None and tally.number > high)
        # What change_from_last compared with is in another release.
        changed = rule.change_from_last is not None and CHANGE in (tally.broken or ())
        broken = (rule.name,) * outside + (CHANGE,) * changed
        if tally.broken != broken or (broken and rule.severity == "stop"):
            raise forged(path, f"tallies[{index}].broken {_ITSELF}")
    for index, (known, about) in enumerate(zip(spec.invariants, certificate.invariants, strict=True)):
        most = 0 if known.on_conflict == "stop" else about.compared
        if about.beyond_chance > most:
            raise forged(path, f"invariants[{index}].beyond_chance {_ITSELF}")


def _tables_are_those_of(path: Path, spec: ReleaseSpec, certificate: Certificate) -> None:
    """Check that the certificate describes the tables of its spec and names their files."""
    tables = certificate.tables
    entries: dict[str, Table | Histogram] = {table.name: table for table in spec.tables}
    entries |= {histogram.name: histogram for histogram in spec.histograms}
    if list(tables) != list(entries):
        raise forged(path, f"tables {_ITSELF}")
    for table in spec.tables:
        if tables[table.name].mechanism != table.mechanism:
            raise forged(path, f"tables.{table.name}.mechanism {_ITSELF}")
        measures = tables[table.name].measures or {}
        if measures.keys() != table.measures.keys() or not all(
            _declares(measures[name].document(), measure) for name, measure in table.measures.items()
        ):
            raise forged(path, f"tables.{table.name}.measures {_ITSELF}")
    for histogram in spec.histograms:
        largest = histogram.largest_size(spec.privacy)
        expected = {"mechanism": MECHANISM, "sizes_of": histogram.of, "largest_size": largest}
        for field, value in expected.items():
            if getattr(tables[histogram.name], field) != value:
                raise forged(path, f"tables.{histogram.name}.{field} {_ITSELF}")
    for name, entry in entries.items():
        if tables[name].counted != counted_in(spec, entry):
            raise forged(path, f"tables.{name}.counted {_ITSELF}")
    lists = {
        f"codes/{published_name(column.code_list)}" for column in spec.columns.values() if column.code_list
    }
    if not (files_of(spec) | lists) <= certificate.files.keys():
        raise forged(path, f"files {_ITSELF}")


def _declares(description: Mapping[str, Any], measure: Measure) -> bool:
    return all(description.get(key) == value for key, value in measure.declared.items())


def forged(path: Path, what: str) -> PublicationError:
    """Return the error for a certificate that is not the published one."""
    return PublicationError(what, where=str(path), hint="restore the release from a copy")


# What the last period published, for rules and documents that compare with it. A noisy rule compares with the
# noisy number of the same rule, or with the published total where that counted the same. The total is private
# already: the exact number of rows would be one more confidential number to keep.


def last_total(run: Run) -> int | None:
    """Return the earlier total with which exact rules compare; None if there is none, or no such rule.

    Periods are compared as text: "2025" is before "2026", "2026-Q1" before "2026-Q2".

    Raises
    ------
    PublicationError
        If any rule compares, a noisy one too, and the release to compare with is missing or altered.
    """
    rules = [rule for rule in run.loaded.spec.rules if isinstance(rule, RowCountRule)]
    rules = [rule for rule in rules if rule.change_from_last is not None]
    certificate = _last_certificate(run) if rules else None
    if certificate is None or all(rule.noisy is not None for rule in rules):
        return None
    return _total(certificate)


def last_number(run: Run, rule: str, counts: str) -> int | None:
    """Return the earlier number with which a noisy rule compares; None if none was published.

    ``counts``: ``units`` or ``records``: what it counts.
    """
    certificate = _last_certificate(run)
    if certificate is None:
        return None
    for tally in certificate.tallies:
        if (tally.of, tally.counts) == (rule, counts):
            return tally.number
    # With one record for each unit, and only then, a total of records is a number of units.
    return _total(certificate) if certificate.privacy.max_contributions == 1 else None


def last_release(run: Run, ledger: Ledger) -> Path | None:
    """Return the folder of the product's newest release for an earlier period, for display only.

    The ledger calls it published, and it lies whole in the publication folder; one that does not is passed
    over, and then the newest before it is returned.
    """
    spec = run.loaded.spec
    product = run.loaded.folder / spec.publication.folder / spec.product
    for charge in ledger.published_before(spec.dataset, spec.product, spec.period):
        folder = product / charge.period / charge.release_id
        with contextlib.suppress(PublicationError):
            if folder.is_dir() and check_release(folder, charge.release_id) == charge.publication_digest:
                return folder
    return None


def total_of(tables: Mapping[str, str | None], totals: Mapping[str, int]) -> int | None:
    """Return the total of the first table of all records; None if there is no such table.

    Parameters
    ----------
    tables
        Name -> which records it counts; None for all.
    totals
        Name -> published total.
    """
    return next((totals[name] for name, where in tables.items() if where is None), None)


def _total(certificate: Certificate) -> int | None:
    tables = {table.name: table.where for table in ReleaseSpec.model_validate(certificate.spec).tables}
    return total_of(tables, {name: about.total for name, about in certificate.tables.items()})


def _last_certificate(run: Run) -> Certificate | None:
    """Return the certificate of the last release before this period; None if the ledger has none.

    Its folder has to be there as it was published: a rule that compared with nothing, or with an older
    period, would hold without saying what the certificate says that it says.
    """
    spec = run.loaded.spec
    before = run.ledger.published_before(spec.dataset, spec.product, spec.period)
    product = run.loaded.folder / spec.publication.folder / spec.product
    # The charges of one release, its tallies' too, name one certificate; one of them names its folder.
    charges = [charge for charge in before if charge.publication_digest == before[0].publication_digest]
    for charge in charges:
        folder = product / charge.period / charge.release_id
        if folder.is_dir():
            with contextlib.suppress(PublicationError):
                check_release(folder, charge.release_id)
                return verify_certificate(folder / CERTIFICATE, charge)
    if not charges:
        return None
    raise PublicationError(
        f"change_from_last compares with what was published for {charges[0].period}, "
        "and that release is missing or altered",
        where=str(product / charges[0].period),
        hint="put its folder back as it was published, or leave change_from_last out of the spec",
    )
