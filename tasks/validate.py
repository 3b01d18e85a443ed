"""Validation of microdata: one pass of the engine for the metrics, one suite that checks them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tabularium.mechanisms.errors import Finding, InputError, InputRefused
from tabularium.tasks.ingest.open_source import (
    InputHandle,
    OpenSource,
    first_row,
    miscounted,
    opened,
    rows_of,
    unreadable,
)
from tabularium.tasks.publish.verify_certificate import last_total
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.derivation import coded_columns
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.suites.expectations import RuleResult, write_private
from tabularium.validations.suites.microdata import (
    Metrics,
    check_microdata,
    local_notes,
    metrics_expression,
    read_metrics,
    stop_if_failed,
)
from tabularium.validations.universes.impossible_cells import without_impossible

__all__ = ["RuleResult", "measure_source", "validate", "validate_microdata"]


def validate_microdata(
    loaded: Loaded, handle: InputHandle, scratch: Path, last_total: int | None
) -> tuple[RuleResult, ...]:
    """Judge the microdata by the rules of the spec.

    Returns a result per rule: names and pass or fail, nothing else.

    Parameters
    ----------
    scratch
        Folder inside the secure workspace, for the metrics and the results (mode 0600).
    last_total
        The total published for the period before, or None.

    Raises
    ------
    InputError
        If the source has no records, cannot be read to its end, or a column that is declared as numbers holds
        none.
    RuleFailed
        If a rule of severity ``stop`` fails, or more records are rejected than ``source.max_rejected``.
    """
    metrics = measure_source(loaded, handle, scratch)
    if not metrics.rows:
        raise InputRefused("there are no records", where="source", hint="name the file that holds the data")
    _check_numbers(metrics, loaded.domains)
    failure = InputError("the results cannot be written", where="secure workspace", hint="check its rights")
    redacted(lambda: write_private(scratch / "metrics.json", json.dumps(asdict(metrics), indent=1)), failure)
    results = check_microdata(loaded.spec, metrics, last_total, scratch / "microdata.json", loaded.domains)
    for line in local_notes(loaded.spec, loaded.domains, metrics):
        note(line)
    stop_if_failed(results, loaded.spec, loaded.domains, metrics, last_total)
    return results


def measure_source(loaded: Loaded, handle: InputHandle, scratch: Path) -> Metrics:
    """Return the metrics of the source. Confidential.

    Raises
    ------
    InputError
        If the source has changed or cannot be read to its end.
    """

    def measure(source: OpenSource) -> Metrics:
        coded = coded_columns(source.table, source.raw, source.columns, loaded.domains)
        table = without_impossible(coded, loaded.spec.impossible, loaded.domains)
        expression = metrics_expression(table, source.raw, loaded.domains, loaded.spec)
        return read_metrics(first_row(expression, source.engine), loaded.domains, loaded.spec)

    with opened(loaded, handle, scratch) as source:
        metrics = redacted(lambda: measure(source), lambda: unreadable(loaded, handle, scratch))
    rows = rows_of(handle)
    if rows != metrics.rows:
        raise miscounted(metrics.rows, rows)
    return metrics


def _check_numbers(metrics: Metrics, domains: dict[str, Domain]) -> None:
    """Check that a column declared as whole numbers has at least one, unless it is empty."""
    for name, domain in domains.items():
        column = metrics.columns[name]
        if isinstance(domain, NumberDomain) and not column.read and column.nulls < metrics.rows:
            kind = "whole number" if domain.digits is None and not domain.floor else "number"
            raise InputRefused(
                f"no value of column {name!r} reads as a {kind}",
                where="source",
                hint="check source.delimiter and the domain under columns",
                findings=[Finding(column=name, kind=f"not a {kind}")],
            )


@stage("validate microdata")
def validate(run: Run, handle: InputHandle) -> None:
    """Check the microdata by the rules of the spec; only names and outcomes are shown."""
    results = validate_microdata(run.loaded, handle, run.folder("validation"), last_total(run))
    for result in results:
        if not result.passed:
            note(f"the microdata break the rule {result.name}, which only warns")
        elif result.note:
            note(f"rule {result.name}: {result.note}")
