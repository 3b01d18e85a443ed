"""The published tables made again from the published measurements, by the functions that made them.

::

    measurements/ ─▶ mechanisms' own post-processing ─▶ consistency ─▶ non-negativity ─▶ rounding ─▶ margins

The measurements are held against the spec before anything is computed from them, so that a folder that nobody
vouches for cannot ask for another mechanism, or for arrays that no table of its size has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tabularium.mechanisms import build, restore
from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.tasks.check.failed_cells import failed_cells
from tabularium.tasks.margins.margins import Margins, margins_of, of_known
from tabularium.tasks.measure import Finished, MeasuredError
from tabularium.tasks.postprocess.conflicts import conflicts
from tabularium.tasks.postprocess.postprocessing import (
    CONSISTENCY,
    FINISHED_ANEW,
    REMADE,
    ROUNDING,
    PostProcessor,
)
from tabularium.tasks.postprocess.stages import on_their_trees, to_compare
from tabularium.tasks.public_folder import named
from tabularium.tasks.public_tables import open_parquet
from tabularium.tasks.publish.measurement_files import FOLDER, MOST_NUMBERS, read_measurement
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.runtime.run import without_data
from tabularium.tasks.verify.findings import CouldNot, Failed
from tabularium.tasks.verify.subject import Subject, failing
from tabularium.validations.spec.checks.table_checks import MECHANISM
from tabularium.validations.spec.model import ReleaseSpec

_PROGRAM = "tabularium-dp"

Parts = dict[str, dict[str, Finished]]


@dataclass(frozen=True, eq=False)
class Remade:
    """What the measurements give.

    Attributes
    ----------
    tables
        Finished estimates, by table.
    margins
        Half-widths, and what the certificate says of them.
    histograms
        Released pairs (size, number), sizes descending.
    agreement
        How each step went, by its name.
    conflicts
        Invariant -> how it and the measurements go together.
    failed
        Table -> checks that cells fail, as the certificate has them.
    exceptions
        Lines of sums that whole numbers could not meet.
    """

    tables: dict[str, Estimate]
    margins: dict[str, Margins]
    histograms: dict[str, Finished]
    agreement: dict[str, dict[str, Any]]
    conflicts: dict[str, dict[str, int]]
    failed: dict[str, list[dict[str, Any]]]
    exceptions: list[str]


def wanted(spec: ReleaseSpec) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield what a release of this spec measures: table, level, mechanism and its parameters."""
    for table in spec.arrays:
        for level in table.levels or ("",):
            yield table.name, level, table.mechanism, dict(table.parameters)
    for histogram in spec.histograms:
        yield histogram.name, "", MECHANISM, {**histogram.parameters, "form": "prevalences"}


def described_in(subject: Subject) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what the index says of each measurement, held against the spec.

    Raises
    ------
    Failed
        It names another measurement, mechanism or parameter, an array that is too large, or another file.
    """
    released, index = subject.released, subject.index
    entries = {(each["table"], each["level"]): each for each in index["measurements"]}
    expected = {(name, level): (kind, given) for name, level, kind, given in wanted(released.spec)}
    if list(entries) != list(expected) or len(entries) != len(index["measurements"]):
        raise Failed("the measurements are not those of the spec")
    for (name, level), entry in entries.items():
        kind, given = expected[name, level]
        mechanism = build(kind, **given)  # which may go by several names
        what, about = f"the measurement {'/'.join(filter(None, (name, level)))}", entry["measured"]
        if (about["mechanism"], about["parameters"]) != (mechanism.name, mechanism.parameters()):
            raise Failed(f"{what} is of another mechanism or has other parameters than the spec says")
        if about["definition"] != released.spec.privacy.definition or about["insecure"] is not False:
            raise Failed(f"{what} was drawn under another definition, or with predictable noise")
        _see_arrays(subject, what, name, level, entry["arrays"])
    return entries


def _see_arrays(subject: Subject, what: str, name: str, level: str, arrays: Mapping[str, Any]) -> None:
    """See that arrays lie in the folder and are no larger than their files and the table explain."""
    layout = subject.released.layouts.get(name)
    cells = 0 if layout is None else prod(layout.shape(level))
    for array, about in arrays.items():
        file, numbers = about["file"], prod(about["shape"])
        plain = ".".join(filter(None, (name, level, "parquet")))
        if file not in (plain, ".".join(filter(None, (name, level, array, "parquet")))):
            raise Failed(f"{what} names a file that is not its own")
        if any(type(size) is not int or size < 0 for size in about["shape"]) or len(about["shape"]) > 32:
            raise Failed(f"{what} has an array of an impossible shape")
        if numbers > 64 * cells + MOST_NUMBERS:
            raise Failed(f"{file} does not hold the numbers that are declared")
        with failing(), named(file):
            open_parquet(subject.folder / FOLDER / file, rows=numbers, columns=["measured"])
        if np.dtype(about["dtype"]).kind not in "iuf":
            raise Failed(f"{file} is declared to hold no numbers")


def parts_in(subject: Subject) -> Parts:
    """Return every measurement of a release, finished by its mechanism."""
    version = subject.certificate.postprocessing.version
    spec = subject.released.spec
    used = {str(each) for _, _, kind, given in wanted(spec) for each in (kind, given.get("mechanism"))}
    used |= {"prior" for table in spec.tables if table.prior is not None}
    if version not in REMADE or version < max(FINISHED_ANEW.get(each, 0) for each in used):
        made = subject.certificate.software.get(_PROGRAM, "of that time")
        raise CouldNot(f"post-processing of version {version}: install {_PROGRAM} {made}")
    parts: Parts = {}
    for (name, level), entry in described_in(subject).items():
        parts.setdefault(name, {})[level] = _finished(subject, name, level, entry)
    return parts


def _finished(subject: Subject, name: str, level: str, entry: Mapping[str, Any]) -> Finished:
    measured = read_measurement(subject.folder, name, level)
    error = None
    if "error" in entry:
        totals = tuple(round(total * UNIT) for total in entry["error"]["measured"])
        error = MeasuredError(totals, Event.from_dict(entry["error"]["event"]))
    part = Finished(measured, restore(measured).finish(measured), error)
    return part.in_shape(subject.released.layouts.get(name), level)


def transcript_of(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events that the index names for one measurement, as they stand."""
    return [*entry["measured"]["transcript"], *([entry["error"]["event"]] if "error" in entry else [])]


def remade(subject: Subject) -> Remade:
    """Return the tables of the release with their margins, made again from the measurements once."""

    def make() -> Remade:
        subject.bounded()
        return remake(subject.released, parts_in(subject))

    return subject.once("remade", make)


def remake(released: Released, parts: Parts) -> Remade:
    """Make the tables of a release again.

    Parameters
    ----------
    parts
        Table, level -> what was measured, finished by its mechanism.
    """
    histograms = {each.name: parts.pop(each.name)[""] for each in released.spec.histograms}
    with without_data(released.loaded) as run:
        post = PostProcessor.of(run.loaded)
        estimates, own = on_their_trees(run.loaded, post, parts)
        found: dict[str, dict[str, int]] = {}
        notes: dict[str, dict[str, Any]] = {}
        consistent = estimates
        for step in post.steps:
            if step == CONSISTENCY and post.agreement.known:
                exact = to_compare(post, parts)
                found = {name: each.as_json() for name, each in conflicts(post.agreement, exact).items()}
            agreed = post.apply(step, estimates)
            estimates, notes[step] = agreed.estimates, agreed.notes
            if step == CONSISTENCY:
                consistent = estimates
        base = {**consistent, **own}
        name, version = released.certificate.release_id, released.certificate.postprocessing.version
        margins = margins_of(run, name, parts, estimates, base, version=version)
        margins = of_known(run, margins, consistent, notes.get(CONSISTENCY, {}))
        values = {name: each.values for name, each in estimates.items()}
        half = {name: each.half for name, each in margins.items()}
        failed: dict[str, list[dict[str, Any]]] = {name: [] for name in values}
        for each in failed_cells(run, post.agreement, values, half):
            failed[each.table].append({"check": each.check, "count": each.count, "cells": list(each.cells)})
    exceptions = list(notes.get(ROUNDING, {}).get("named", []))
    agreement = _agreement(notes, list(post.agreement.apart))
    return Remade(estimates, margins, histograms, agreement, found, failed, exceptions)


def _agreement(notes: Mapping[str, dict[str, Any]], apart: list[str]) -> dict[str, Any]:
    """Return how tables were made to agree, as the certificate has it; nothing for a single one."""
    steps = {
        step.replace("-", ""): {key: said for key, said in note.items() if key != "named"}
        for step, note in notes.items()
    }
    made = {step: note for step, note in steps.items() if note}
    return {**made, "not_made_to_agree_on": apart} if made else {}
