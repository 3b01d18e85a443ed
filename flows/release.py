"""The main flow as Prefect runs it; what it does stands in :mod:`flows.release_chain`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import cast

from prefect import flow

from flows.operations.announcements import announce_published, tag_run
from flows.operations.artifacts import show_release
from flows.operations.periods import of_this_run
from flows.operations.waiting import answer, without_tracebacks
from flows.release_chain import release_tables
from mechanisms.errors import TabulariumError
from tasks.runtime.home import Home
from tasks.runtime.progress import stopping
from tasks.runtime.run import Request, handed_over, load


@flow(name="tabularium-release", persist_result=False, log_prints=False)
def release(
    spec: str,
    source: str | None = None,
    period: str | int | None = None,
    home: str | None = None,
    revises: str | None = None,
    timezone: str = "UTC",
    same_input: bool = False,
) -> dict[str, str]:
    """Publish what the spec at ``spec`` asks for; doing it again changes and costs nothing.

    Where it is not approved, or something that it needs is busy or missing, the run of a deployment waits
    (:mod:`flows.operations.waiting`); what is refused fails with one line.

    Parameters
    ----------
    spec
        Path of the release spec (YAML).
    source, period
        Instead of the spec's own source or period. The period may be a template that is filled in from when
        the run was scheduled: see :mod:`flows.operations.periods`.
    home
        Home of the installation; default TABULARIUM_HOME or ``~/.tabularium``.
    revises
        Why what was published before is published again.
    timezone
        Where the days and months of a period are told.
    same_input
        Whether the input may be one that was released for another period of the product.

    Returns
    -------
    dict
        ``status``, ``release_id``, ``folder`` and ``certificate`` (its SHA-256).
    """
    stopping.listen_again()
    without_tracebacks()
    request, digest = None, ""
    try:
        when = of_this_run(period, timezone)
        request = Request.of(spec, source, when, home, revises, same_input=same_input)
        loaded = handed_over(request) or load(request)
        product, told, digest = loaded.spec.product, loaded.spec.period, loaded.digest
        tag_run(product, told)
        outcome = release_tables(request, loaded)
    except TabulariumError as error:
        failure = error
    else:
        show_release(outcome, Home(Path(request.home)))
        if outcome.status == "published":
            announce_published(product, told, outcome.release_id, outcome.folder)
        return asdict(outcome)
    # Prefect takes a state instead of what a run returns.
    return cast("dict[str, str]", answer(failure, request, digest))
