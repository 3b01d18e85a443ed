"""The published tables made again from the published measurements, by the functions that made them.

::

    measurements/ ─▶ mechanisms' own post-processing ─▶ consistency ─▶ non-negativity ─▶ rounding ─▶ margins

The measurements are held against the spec before anything is computed from them, so that a folder that nobody
vouches for cannot ask for another mechanism, or for arrays that no table of its size has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from tabularium.mechanisms import build, restore
from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.tasks.measure import Finished, MeasuredError, Parts
from tabularium.tasks.postprocess.estimation import Estimation, estimate
from tabularium.tasks.postprocess.postprocessing import CHANGED_IN_VERSION, REMADE
from tabularium.tasks.public_folder import named
from tabularium.tasks.public_tables import open_parquet
from tabularium.tasks.publish.measurement_files import FOLDER, MOST_NUMBERS, read_measurement
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.runtime.run import without_data
from tabularium.tasks.verify.subject import Failed, Skipped, Subject, failing
from tabularium.validations.release_spec.checks.table_checks import MECHANISM
from tabularium.validations.release_spec.model import ReleaseSpec

_PROGRAM = "tabularium-dp"


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
    if version not in REMADE or version < max(CHANGED_IN_VERSION.get(each, 0) for each in used):
        made = subject.certificate.software.get(_PROGRAM, "of that time")
        raise Skipped(f"post-processing of version {version}: install {_PROGRAM} {made}")
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


def remade(subject: Subject) -> Estimation:
    """Return the tables of the release with their margins, made again from the measurements once."""

    def make() -> Estimation:
        subject.bounded()
        return remake(subject.released, parts_in(subject))

    return subject.cached("remade", make)


def remake(released: Released, parts: Parts) -> Estimation:
    """Make the tables of a release again.

    Parameters
    ----------
    parts
        Table, level -> what was measured, finished by its mechanism.
    """
    certificate = released.certificate
    version = certificate.postprocessing.version
    return estimate(without_data(released.loaded), parts, certificate.release_id, version=version)
