"""A published release folder as tables that can be asked: from its certificate, lists and files alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.errors import InputError
from mechanisms.inference.margins_of_error.half_widths import quantile
from mechanisms.queries import (
    Axes,
    Measurement,
    NoisyTable,
    PublishedTable,
)
from mechanisms.queries.cell_measurements import noisy_cells
from tasks.margins.error_model import LevelError, margin_base
from tasks.postprocess.table_layout import Layout
from tasks.publish.measurement_files import read_measurement
from tasks.publish.read_release import Released
from tasks.publish.release_folder import CERTIFICATE
from tasks.publish.verify_certificate import verify_certificate
from validations.domains.query_attributes import attribute_of, tree_of
from validations.spec.parts.table_parts import Table
from validations.universes.universe import key_of

_ONE_VARIANCE = frozenset({"identity", "cells", "gaussian"})


@dataclass(frozen=True, eq=False)
class OpenRelease:
    """A release folder that has been read.

    Attributes
    ----------
    folder
        Where it lies.
    certificate
        What its certificate says.
    digest
        SHA-256 of the certificate.
    verified
        Whether every file was compared with the certificate.
    tables
        What can be asked.
    """

    folder: Path
    certificate: dict[str, Any]
    digest: str
    verified: bool
    tables: tuple[ReleasedTable, ...]

    @property
    def level(self) -> float:
        """The level of its margins."""
        return float(Fraction(self.certificate["confidence"]))

    @property
    def of_a_universe(self) -> list[str]:
        """The names of the tables that do not count all records."""
        return [each.name for each in self.tables if each.table.where is not None]

    @property
    def of_one_universe(self) -> tuple[ReleasedTable, ...]:
        """The tables that count the same records: all records, where a table counts those.

        Raises
        ------
        InputError
            There are several universes, and no table of all records.
        """
        keys = [key_of(each.table, each.released.domains) for each in self.tables]
        wanted = None if None in keys else keys[0]
        if wanted is not None and len(set(keys)) > 1:
            raise InputError(
                "the tables of this release count different records",
                where="--table",
                mend=f"name one of {', '.join(each.name for each in self.tables)}",
            )
        return tuple(each for each, key in zip(self.tables, keys, strict=True) if key == wanted)


def open_release(folder: Path, *, table: str | None = None, verify: bool = True) -> OpenRelease:
    """Read a release folder.

    Parameters
    ----------
    folder
        The one that holds ``certificate.json``.
    table
        Only this table.
    verify
        Compare every file with its digest in the certificate first.

    Raises
    ------
    InputError
        No release lies there, or it has no such table.
    PublicationError
        It is not what its certificate says.
    """
    released = Released.open(folder, whole=verify)
    certificate, loaded = released.certificate, released.loaded
    if verify:
        verify_certificate(folder / CERTIFICATE, domains=loaded.domains)
    names = [entry.name for entry in loaded.spec.tables]
    if not names:
        raise InputError(
            "this release holds no table of counts", where=str(folder), mend="ask a release that has one"
        )
    if table is not None and table not in names:
        raise InputError(
            "the release has no table of this name",
            where=f"--table {table}",
            mend=f"known are {', '.join(names)}",
        )
    tables = tuple(
        ReleasedTable(released, entry) for entry in loaded.spec.tables if table in (None, entry.name)
    )
    return OpenRelease(folder, certificate, released.digest, verify, tables)


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A published table, whose files are read when it is asked."""

    released: Released
    table: Table

    @property
    def name(self) -> str:
        """Its name in the spec."""
        return self.table.name

    @cached_property
    def layout(self) -> Layout:
        """How it lies in the files."""
        return self.released.layouts[self.name]

    @cached_property
    def axes(self) -> Axes:
        """Its attributes."""
        along = self.layout.along
        return Axes(
            None if along is None else tree_of(along, self.layout.nodes),
            tuple(attribute_of(domain) for domain in self.layout.others),
        )

    @property
    def noisy(self) -> NoisyTable | None:
        """Its noisy measurements, where they are published and have a known distribution."""
        return self._known[0]

    @property
    def published(self) -> PublishedTable | None:
        """Its published cells, unless they are the measurements themselves."""
        return self._known[1]

    @cached_property
    def _known(self) -> tuple[NoisyTable | None, PublishedTable | None]:
        noisy, published = self._noisy(), self._published()
        consistent = self.released.spec.postprocessing.consistency
        whole = bool(np.isfinite(published.values).all())  # nothing is suppressed
        if noisy is None and published.noise is not None and not consistent and whole:
            return _as_measured(published), None
        return noisy, published

    def _noisy(self) -> NoisyTable | None:
        if self.released.certificate["measurements"]["withheld"] is not None:
            return None
        parts = []
        for level, nodes in self.layout.cuts.items():
            measured = read_measurement(self.released.folder, self.name, level)
            part = noisy_cells(measured, nodes, self.axes.shape, self.layout.measured_at(level))
            if part is None:
                return None
            parts.append(part)
        return NoisyTable(self.axes, tuple(parts))

    def _published(self) -> PublishedTable:
        layout, axes, about = self.layout, self.axes, self.released.certificate["tables"][self.name]
        read = self.released.table(self.name)
        present, shape = read.present, (layout.nodes, *axes.shape)
        values, margin = read.counts.reshape(shape), read.margins.reshape(shape)
        level = self.released.level
        noise = None
        if about["margins"]["method"] != "exact":
            rms_error = _rms_errors(layout, about["margins"])
        elif self.table.mechanism not in _ONE_VARIANCE:
            rms_error = margin / quantile(level)
        else:
            noise = _noise(axes, layout, about["noise_variance"])
            rms_error = np.sqrt(noise.estimated_variances if present.all() else noise.measured_variances)
        return PublishedTable(axes, values, margin, present, rms_error, level, noise)


def _noise(axes: Axes, layout: Layout, variances: dict[str, float]) -> NoisyTable:
    nothing = np.zeros((1, *axes.shape))
    return NoisyTable(
        axes, tuple(Measurement(nodes, nothing, variances[level]) for level, nodes in layout.cuts.items())
    )


def _rms_errors(layout: Layout, about: dict[str, Any]) -> NDArray[np.float64]:
    """Return the root mean squared errors that the published margins are made of."""
    method = about["method"]
    errors = about.get("mean_squared_error", dict.fromkeys(layout.cuts, 1.0))
    parts: dict[str, tuple[NDArray[Any], LevelError]] = {
        level: (np.zeros(layout.shape(level)), LevelError(method, errors[level])) for level in layout.cuts
    }
    return np.sqrt(margin_base(layout, parts).variances[:, 0])


def _as_measured(published: PublishedTable) -> NoisyTable:
    """Return cells that were published exactly as they were measured as measurements."""
    assert published.noise is not None  # noqa: S101 - the caller has looked
    nodes = np.flatnonzero(published.present)
    variances = published.noise.measured_variances[nodes]
    return NoisyTable(published.axes, (Measurement(nodes, published.values[nodes], variances),))
