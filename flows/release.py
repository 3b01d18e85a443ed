"""The main flow as Prefect runs it; what it does stands in :mod:`flows.release_chain`."""

from __future__ import annotations

from dataclasses import asdict

from prefect import flow

from flows.release_chain import release_tables
from tasks.runtime.progress import stopping
from tasks.runtime.run import Request, handed_over


@flow(name="tabularium-release", persist_result=False, log_prints=False)
def release(
    spec: str,
    source: str | None = None,
    period: str | None = None,
    home: str | None = None,
    revises: str | None = None,
) -> dict[str, str]:
    """Publish what the spec at ``spec`` asks for; doing it again changes and costs nothing.

    Parameters
    ----------
    spec
        Path of the release spec (YAML).
    source, period
        Instead of the spec's own source or period.
    home
        Home of the installation; default TABULARIUM_HOME or ``~/.tabularium``.
    revises
        Why what was published before is published again.

    Returns
    -------
    dict
        ``status``, ``release_id``, ``folder`` and ``certificate`` (its SHA-256).
    """
    stopping.listen_again()
    request = Request.of(spec, source, period, home, revises)
    return asdict(release_tables(request, handed_over(request)))
