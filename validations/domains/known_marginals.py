"""Numbers of invariants: public counts over some dimensions, from a CSV file or from the spec itself.

The file is public, like a code list. Every cell of the marginal must stand in it exactly once: a cell that is
left out would be a zero that nobody stated.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.domains.domains import Domain, HierarchyDomain, cut
from tabularium.validations.public_files import MIB, read_text
from tabularium.validations.release_spec.problems import Problem, choose, listed, quoted

SIZE_LIMIT = 64 * MIB
LARGEST = 2**40  # the largest count that is published
_SHOWN = 10  # problems of one file that are listed
_COUNT = "count"


@dataclass(frozen=True, eq=False)
class KnownMarginal:
    """An invariant with its numbers.

    Attributes
    ----------
    along
        The hierarchical dimension that stands at ``level``; None if there is none.
    flat
        The other dimensions, in the order of the spec.
    nodes
        Node numbers along the hierarchy, one per row; None without one.
    values
        (rows, cells) whole numbers; one row without a hierarchy.
    file
        Path as the spec has it; None where the spec holds the number.
    """

    name: str
    reason: str
    along: str | None
    level: str | None
    flat: tuple[str, ...]
    nodes: NDArray[np.int64] | None
    values: NDArray[np.int64]
    file: str | None = None


@dataclass
class _Reading:
    """A file of numbers while it is being read."""

    name: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, line: int | None, column: str, what: str, hint: str) -> None:
        if len(self.problems) < _SHOWN:
            self.problems.append(Problem(line, column, what, hint, self.name))


def read_numbers(
    path: Path, axes: dict[str, tuple[str, ...]]
) -> tuple[NDArray[np.int64] | None, str, list[Problem]]:
    """Read the numbers of a marginal.

    Returns them in the shape of the axes, None if anything is wrong; the file's SHA-256; every problem with
    its line.

    Parameters
    ----------
    path
        A UTF-8 CSV whose header has every dimension's name and ``count``, in any order.
    axes
        Dimension -> its codes, in the order of the cells.
    """
    reading = _Reading(path.name)
    contents = read_text(
        path,
        SIZE_LIMIT,
        lambda line, what, hint: reading.add(line, "", what, hint),
        find="check its name, which is relative to the spec file",
        shorten="keep the dimensions and count only",
    )
    if contents is None:
        return None, "", reading.problems
    text, digest = contents
    return _numbers(text, axes, reading), digest, reading.problems


def _numbers(text: str, axes: dict[str, tuple[str, ...]], reading: _Reading) -> NDArray[np.int64] | None:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    shape = tuple(len(codes) for codes in axes.values())
    values = np.full(prod(shape), -1, np.int64)
    try:
        header = [name.strip() for name in next(rows, [])]
        wanted = [*axes, _COUNT]
        if sorted(header) != sorted(wanted):
            reading.add(
                1, "", "the header does not fit", f"write the columns {listed(wanted, 20)}, no others"
            )
            return None
        _fill(rows, header, axes, values, reading)
    except csv.Error:
        reading.add(rows.line_num, "", "this is not CSV", "check the quotes at this line and before it")
        return None
    if reading.problems:
        return None
    if (values < 0).any():
        missing = _cells(axes, int((values < 0).argmax()))
        number = int((values < 0).sum())
        reading.add(
            None,
            _COUNT,
            f"{'1 cell has' if number == 1 else f'{number} cells have'} no row, first {missing}",
            "write a row for every cell",
        )
        return None
    return values.reshape(shape)


def _fill(
    rows: Iterator[list[str]],
    header: list[str],
    axes: dict[str, tuple[str, ...]],
    values: NDArray[np.int64],
    reading: _Reading,
) -> None:
    places = {name: {code: index for index, code in enumerate(codes)} for name, codes in axes.items()}
    columns = {name: header.index(name) for name in (*axes, _COUNT)}
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            reading.add(line, "", f"the row does not have {len(header)} values", "write one value per column")
            continue
        cell: int | None = 0
        for name, codes in axes.items():
            code = row[columns[name]]
            at = places[name].get(code)
            if at is None:
                reading.add(
                    line, name, f"{quoted(code)} is not one of the codes", choose(code, codes, "codes")
                )
            cell = None if at is None or cell is None else cell * len(codes) + at
        count = row[columns[_COUNT]].strip()
        good = count.isascii() and count.isdecimal() and int(count[:20]) <= LARGEST and len(count) <= 20
        if not good:
            reading.add(line, _COUNT, "is not a whole number from 0 to 2^40", "write digits only")
        if cell is None or not good:
            continue
        if values[cell] >= 0:
            reading.add(line, "", f"the cell {_cells(axes, cell)} is here twice", "keep one of the rows")
            continue
        values[cell] = int(count)


def _cells(axes: dict[str, tuple[str, ...]], number: int) -> str:
    """Name a cell by its codes."""
    sizes = tuple(len(codes) for codes in axes.values())
    places = np.unravel_index(number, sizes) if sizes else ()
    return listed((codes[int(at)] for codes, at in zip(axes.values(), places, strict=True)), 20)


def axes_of(
    along: HierarchyDomain | None, level: str | None, flat: tuple[Domain, ...]
) -> tuple[NDArray[np.int64] | None, dict[str, tuple[str, ...]]]:
    """Return the nodes of a marginal's hierarchy, and the codes along each dimension, the hierarchy first."""
    codes = {domain.name: domain.codes for domain in flat}
    if along is None:
        return None, codes
    nodes = cut(along, level or along.levels[-1])
    return nodes, {along.name: tuple(along.node_codes[node] for node in nodes.tolist()), **codes}


# A published table of an earlier release is named by the release's certificate, whose digest is a part of the
# spec's; the certificate names the digest of the file that holds the numbers.

FOLDER = "prior-releases"
"""Folder of a release that holds, by release id, what its tables were drawn towards."""


@dataclass(frozen=True)
class PriorTable:
    """The published file of one table of an earlier release.

    Attributes
    ----------
    folder
        Where it lies, or a copy of its certificate and of this file.
    certificate
        SHA-256 of its certificate.
    format, file, digest
        The format that the numbers are read from, name of the file of the table, and its SHA-256.
    """

    release: str
    folder: Path
    certificate: str
    format: str
    file: str
    digest: str


def public_prior(release: str) -> str:
    """Return the name of the digest of a release's certificate among public files."""
    return f"{FOLDER}.{release}"
