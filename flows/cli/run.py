"""``tabularium run``: a release, in this process or as a flow run of Prefect's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.terminal import TerminalReporter

if TYPE_CHECKING:
    from tasks.runtime.run import Request
    from validations.spec.load import Loaded


def run_release(
    spec: Path,
    source: str | None,
    period: str | None,
    home: Path | None,
    reporter: TerminalReporter,
    *,
    prefect: bool = False,
) -> dict[str, Any]:
    """Publish what ``spec`` asks for, with its stages reported to ``reporter``.

    Parameters
    ----------
    prefect
        Run as a flow even where no Prefect API is configured: on a server that ends with the run.

    Returns
    -------
    dict
        ``status``, ``release_id``, ``folder``, ``certificate`` and ``engine``: ``process``, ``prefect`` with
        the URL of its API, or ``none`` if the release was published already.
    """
    from tasks.runtime.progress import reporting_to
    from tasks.runtime.run import Request, load

    request = Request.of(spec, source, period, home)
    loaded = load(request)
    from flows.cli.prefect_api import configured_url
    from flows.release_chain import find_published, release_tables

    if not prefect and configured_url() is None:
        with reporting_to(reporter):
            outcome = release_tables(request, loaded)
        return {**asdict(outcome), "engine": "process" if outcome.status == "published" else "none"}
    found = find_published(request, loaded)
    if found is not None:
        return {**asdict(found), "engine": "none"}
    with reporting_to(reporter):
        return _through_prefect(request, loaded)


def _through_prefect(request: Request, loaded: Loaded) -> dict[str, Any]:
    from flows.cli.prefect_api import prefect_api
    from tasks.runtime.run import handing_over

    with prefect_api() as url, handing_over(request, loaded):
        from flows.release import release

        done = release(request.spec, request.source, request.period, request.home)
        return {**done, "engine": f"prefect {url}"}
