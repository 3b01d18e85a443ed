"""The dry run: refuses everything that can be refused for public reasons before anything is charged."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.ledger.measurement.store import Payload
from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import InputError, MechanismError
from tabularium.mechanisms.inference.prior_shrinkage import LEAST
from tabularium.mechanisms.registry import preload
from tabularium.tasks.margins.known_levels import below, prior_numbers
from tabularium.tasks.measure import Job, draw_job, draw_tally, finish_part, histogram_shares, shares
from tabularium.tasks.publish.formats.base import write_without_rows
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.redaction import bare_errors
from tabularium.validations.spec.checks.table_checks import fits, slabs
from tabularium.validations.spec.tables import ABOVE, Table


@stage("dry run")
def dry_run(run: Run) -> None:
    """Try the publication folder, every mechanism, all post-processing and every format, without data.

    Raises
    ------
    PublicationError
        If the release could not be written where it is to be, or its software could not be named.
    NotApproved, InputError
        If this machine's key for releases is not enrolled, or cannot be read.
    MechanismError
        If a mechanism or the post-processing of the spec would fail for reasons that are public.
    """
    from tabularium.tasks.publish.certificate import software_versions
    from tabularium.tasks.publish.draft_folder import check_draft_folder
    from tabularium.tasks.publish.release_folder import check_writable
    from tabularium.tasks.sign.release_key import signing_key

    check_writable(run)
    check_draft_folder(run)
    signing_key(run.installation, run.ledger)
    software_versions()
    dry_run_spec(run)


def dry_run_spec(run: Run) -> None:
    """Try every mechanism, all post-processing and every format of a spec: what needs no data, and no home.

    Raises
    ------
    MechanismError
        As ``dry_run``.
    PublicationError, InputError
        If what a table is to be drawn towards is missing or altered, or has too few of its cells.
    """
    dry_run_mechanisms(run)
    dry_run_tallies(run)
    run.post.dry_run()
    dry_run_priors(run)
    with TemporaryDirectory() as folder:
        write_without_rows(run.loaded, Path(folder))


@bare_errors
def dry_run_mechanisms(run: Run) -> None:
    """Run every mechanism on empty tables of the declared shapes, with seeded noise that is thrown away.

    Whatever a mechanism refuses for reasons that are public (shape, parameters, a noise scale beyond its
    reach) it refuses here, before anything is charged, and not after the draw began, when the charge
    could only be abandoned. For the same reason all that it may import is imported here: empty tables do not
    lead everywhere.
    """
    jobs = [
        Job(
            table.name,
            level,
            loss,
            loss * (table.margin_share or 0),
            mechanism,
            partial(_nobody, mechanism.probe_shape(_drawn_at_once(run, table, level))),
        )
        for table, level, loss, mechanism in shares(run)
    ]
    nothing = partial(_nobody, (1, 2))
    jobs += [Job(each.name, "", loss, Fraction(0), how, nothing) for each, loss, how in histogram_shares(run)]
    for job in jobs:
        for name in job.mechanism.components:
            preload(name)
        try:
            _try(job, run.loaded.spec.privacy.definition)
        except MechanismError as error:
            where = f"table {job.table}, level {job.level}" if job.level else f"table {job.table}"
            raise MechanismError(error.what, where=f"{where}: {error.where}", hint=error.hint) from None


def _nobody(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return np.zeros(shape, np.int64)


def _drawn_at_once(run: Run, table: Table, level: str) -> tuple[int, ...]:
    """Return the shape of what is drawn of a level at once: the first slab, which no other one exceeds."""
    shape = run.layouts[table.name].measured_shape(level)
    return shape if fits(prod(shape)) else (next(slabs(shape))[1], *shape[1:])


def dry_run_tallies(run: Run) -> None:
    """Draw the tallies of nobody with seeded noise, which refuses a scale beyond its reach."""
    spec = run.loaded.spec
    for tally in spec.tallies:
        loss = spec.privacy.record_budget * tally.share
        channel = SeededChannel(loss, seed=0, definition=spec.privacy.definition)
        draw_tally(spec, tally, np.zeros(2, np.int64), channel)


def dry_run_priors(run: Run) -> None:
    """Read what tables are to be drawn towards, and find its cells among theirs."""
    for table in run.loaded.spec.tables:
        if table.prior == ABOVE:
            layout = run.layouts[table.name]
            possible = layout.possible(layout.finest)
            there = np.ones(layout.shape(layout.finest), bool) if possible is None else possible
            cells = int(there[below(layout, layout.finest)].sum())
            if cells < LEAST:
                raise InputError(
                    f"{cells} cells of its finest level have a level above, and {LEAST} are the fewest by "
                    "which it can be judged how far areas are like it",
                    where=f"table {table.name}, prior: above",
                    hint="remove prior",
                )
        if table.name in run.loaded.priors:
            layout, prior = run.layouts[table.name], run.loaded.priors[table.name]
            found, possible = prior_numbers(prior, layout, layout.finest), layout.measured_at(layout.finest)
            known = ~np.isnan(found.reshape(-1)) & (True if possible is None else possible.reshape(-1))
            if known.sum() < LEAST:
                raise InputError(
                    f"it has a number for {known.sum()} of the cells that are measured now, and {LEAST} are "
                    "the fewest by which it can be judged",
                    where=f"table {table.name}, prior {prior.release}",
                    hint="name a release of the same codes, or remove prior",
                )


def _try(job: Job, definition: Definition) -> None:
    """Draw, store and finish in memory, as the release will."""
    arrays: dict[str, NDArray[Any]] = {}
    part = draw_job(job, SeededChannel(job.loss, seed=0, definition=definition), arrays)
    payload = Payload.of({"part": part}, arrays)
    finish_part(json.loads(payload.meta)["part"], payload.arrays)
