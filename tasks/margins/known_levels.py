"""The measured levels of a table: their numbers and their errors.

In a table that is drawn towards an earlier release, or towards the level above, the finest measured level is
not what was measured, but what came of drawing it (``prior_shrinkage``); the levels
above it are left as they are, and settle sums.

*Why only the finest.* What is believed of sums follows from the finest cells and from the measurements of
sums; to draw sums towards the prior as well would count the same belief twice.

*How much the drawn cells say of sums.* Errors of drawn cells are no independent noise: where a whole region
grew, all its cells lie below the truth. How far their sums lie off is seen at the measured level above: the
noisy sum minus that of drawn cells has the variance of the noise and of that error. By as much as the error
is larger than that of independent cells, the drawn cells count for less when levels are made to agree, but
never for less than they were measured: where the noise above is large, it hides their error. Where nothing
is measured above, they count as they were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.inference.level_above import expected_below
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.prior_shrinkage import Shrunk, shrink_to_prior
from tabularium.mechanisms.noise_distributions import noise_in
from tabularium.tasks.margins.error_model import LevelError, level_error
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import LONGEST_ROW, sha256_of
from tabularium.validations.domains.domains import positions
from tabularium.validations.domains.known_marginals import PriorTable
from tabularium.validations.public_files import LARGEST_JSON, Unreadable
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.publication_formats import FORMATS
from tabularium.validations.release_spec.tables import ABOVE

if TYPE_CHECKING:
    from tabularium.tasks.measure import Finished

Known = dict[str, tuple[NDArray[Any], LevelError]]
"""Level -> (released values in the layout of counting, error)."""


@dataclass(frozen=True, eq=False)
class KnownLevels:
    """The levels of one table.

    Attributes
    ----------
    prior, above
        What the certificate says of drawing it towards an earlier release, or the level above, if it was.
    mean_squares
        Level -> mean squared error of its cells, where that is not what they count by.
    """

    levels: Known
    prior: dict[str, Any] = field(default_factory=dict)
    above: dict[str, Any] = field(default_factory=dict)
    mean_squares: dict[str, float] = field(default_factory=dict)

    @property
    def errors(self) -> dict[str, LevelError]:
        """Level -> error."""
        return {level: error for level, (_, error) in self.levels.items()}


def known_levels(loaded: Loaded, layout: Layout, parts: Mapping[str, Finished]) -> KnownLevels:
    """Return the levels of a table, drawn if the spec says so.

    ``parts``: level -> what was measured.

    Raises
    ------
    PublicationError
        What it is to be drawn towards is missing, or not what it was.
    """
    known: Known = as_measured(parts)
    prior, finest = loaded.priors.get(layout.table.name), layout.finest
    level, above = float(loaded.spec.publication.confidence), layout.table.prior == ABOVE
    if above:
        expected = _expected_by_above(layout, parts, level)
    elif prior is not None:
        expected = prior_numbers(prior, layout, finest)
    else:
        return KnownLevels(known)
    drawn = _drawn(expected, layout, finest, parts[finest], level, scaled=not above)
    shape, there = layout.shape(finest), _there(layout, finest)
    values, spread, reach = np.zeros((3, *shape))
    values[there], spread[there] = drawn.values, drawn.variances
    reach[there] = (drawn.half / quantile(level)) ** 2
    worth = _variance_in_sums(layout, known, values, spread)
    mean = {finest: float(drawn.variances.mean())}
    if prior is None:
        known[finest] = values, LevelError("above", worth, reach.reshape(-1))
        return KnownLevels(known, above=_describe_above(layout, drawn), mean_squares=mean)
    known[finest] = values, LevelError("prior", worth, reach.reshape(-1))
    return KnownLevels(known, prior=_describe_prior(prior, drawn), mean_squares=mean)


def _variance_in_sums(
    layout: Layout, known: Known, values: NDArray[np.float64], spread: NDArray[np.float64]
) -> float | NDArray[np.float64]:
    """Return the variance of drawn cells in sums: one for all, or one each in the shape of the level.

    Parameters
    ----------
    known
        The levels as they were measured.
    values, spread
        Drawn cells and their mean squared errors, in the shape of the finest level.
    """
    *above, finest = layout.cuts
    if layout.along is None or not above or not spread.any():
        return known[finest][1].variance
    noisy, error = known[above[-1]]
    nodes, at = layout.cuts[above[-1]], positions(layout.along, layout.cuts[finest], above[-1])
    sums, expected = np.zeros((2, len(nodes), layout.cells))
    np.add.at(sums, at, values.reshape(len(at), -1))
    np.add.at(expected, at, spread.reshape(len(at), -1))
    of = expected > 0
    square = (np.asarray(noisy, np.float64).reshape(sums.shape) - sums)[of] ** 2
    chance = square.std() / np.sqrt(len(square))
    share = float(square.mean() + chance - error.mean) / float(expected[of].mean())
    most = known[finest][1].mean / float(spread[spread > 0].mean())
    return min(max(1.0, share), max(1.0, most)) * spread


def as_measured(parts: Mapping[str, Finished]) -> Known:
    """Return the levels as they were measured."""
    return {level: (part.release.values, level_error(part)) for level, part in parts.items()}


def _drawn(
    expected: NDArray[np.float64],
    layout: Layout,
    level: str,
    part: Finished,
    confidence: float,
    *,
    scaled: bool,
) -> Shrunk:
    there = _there(layout, level)
    noisy = np.asarray(part.release.values, np.float64).reshape(there.shape)
    return shrink_to_prior(
        noisy[there],
        expected.reshape(there.shape)[there],
        noise_in(part.measured.transcript[0]),
        confidence,
        scaled=scaled,
    )


def _expected_by_above(
    layout: Layout, parts: Mapping[str, Finished], confidence: float
) -> NDArray[np.float64]:
    """Return the finest level expected from the levels above, (nodes, cells).

    From the top down each level is drawn towards the one above it, so that of the last but one, which says
    how the finest nodes are made up, as much noise is gone as may be. A leaf that stands above a level is
    counted with it and with the one above, and has nothing above it: nothing is expected of it.
    """
    *above, finest = layout.cuts
    known = _noisy(layout, above[0], parts)
    for upper, level in pairwise(layout.cuts):
        assert layout.along is not None  # noqa: S101 - it has levels
        rows, noisy = positions(layout.along, layout.cuts[level], upper), _noisy(layout, level, parts)
        noise = noise_in(parts[level].measured.transcript[0])
        expected = expected_below(noisy, known, rows, noise.variance)
        expected[~below(layout, level)] = np.nan
        if level != finest:
            drawn = _drawn(expected, layout, level, parts[level], confidence, scaled=False)
            known = np.zeros(layout.shape(level))
            known[_there(layout, level)] = drawn.values
            known = known.reshape(noisy.shape)
    return expected


def _noisy(layout: Layout, level: str, parts: Mapping[str, Finished]) -> NDArray[np.float64]:
    """Return the noisy counts of a level, (nodes, cells), NaN in impossible cells."""
    values = np.asarray(parts[level].release.values, np.float64).reshape(layout.shape(level))
    return np.where(_there(layout, level), values, np.nan).reshape(-1, layout.cells)


def _there(layout: Layout, level: str) -> NDArray[np.bool_]:
    """Return the mask of possible cells of a level, in its shape."""
    possible = layout.possible(level)
    return np.ones(layout.shape(level), bool) if possible is None else possible


def below(layout: Layout, level: str) -> NDArray[np.bool_]:
    """Return the mask of nodes of a level below those of the measured level above it, (nodes,)."""
    levels = list(layout.cuts)
    upper = levels[levels.index(level) - 1]
    return np.isin(layout.cuts[level], layout.cuts[upper], invert=True)


def _describe_prior(prior: PriorTable, drawn: Shrunk) -> dict[str, Any]:
    """Return the certificate's entry, with four digits, which is all that an estimate knows."""
    return {
        "release": prior.release,
        "certificate": prior.certificate,
        "file": prior.file,
        "sha256": prior.digest,
        "cells": drawn.cells,
        "scale": float(f"{drawn.scale:.4g}"),
        "changes": [{"change": change, "shown": float(f"{shown:.3g}")} for change, shown in drawn.shown],
    }


def _describe_above(layout: Layout, drawn: Shrunk) -> dict[str, Any]:
    *_, above, _ = layout.cuts
    levels = [{"difference": apart, "shown": max(0.0, float(f"{shown:.3g}"))} for apart, shown in drawn.shown]
    return {"level": above, "cells": drawn.cells, "differences": levels}


# Numbers of an earlier release are found by the codes of their dimensions: lists may have changed since.

_FEW_ROWS, _TIMES = 1 << 20, 16
MOST_COUNTED = 1 << 53
"""Records of a cell: beyond that, infinity for one, it is no count, and cannot be drawn towards."""


def prior_numbers(prior: PriorTable, layout: Layout, level: str) -> NDArray[np.float64]:
    """Return the earlier published numbers of the cells of one level of a table.

    ``layout``, ``level``: the table, and the level whose cells are wanted.

    (nodes of the level, cells) counts; not a number where none was published.

    Raises
    ------
    PublicationError
        The file is not the one that the certificate names.
    """
    where = f"release {prior.release}, {prior.file}"
    nodes = layout.cuts[level]
    numbers = np.full(len(nodes) * layout.cells, np.nan)
    try:
        # Lists may have become shorter since, but not to a part of what they were.
        most = _TIMES * layout.nodes * layout.cells
        if sha256_of(prior.folder, prior.file, LARGEST_JSON + most * LONGEST_ROW) == prior.digest:
            rows = _rows(prior, layout, _FEW_ROWS + most)
            at = _places(rows, layout, nodes)
            counts = rows["count"].cast(pa.float64()).fill_null(np.nan).to_numpy()
            if (counts > MOST_COUNTED).any():
                raise pa.ArrowInvalid("more records than there are")
            known = (at >= 0) & (counts >= 0)
            numbers[at[known]] = counts[known]
            return numbers.reshape(len(nodes), layout.cells)
    except Unreadable as error:
        raise PublicationError(
            f"it {str(error).removeprefix(prior.file).strip()}",
            where=where,
            hint="put the folder back as it was published",
        ) from None
    except (OSError, pa.ArrowException, KeyError):
        pass
    raise PublicationError(
        "it is missing, or not what its certificate says",
        where=where,
        hint="put the folder back as it was published",
    )


def _rows(prior: PriorTable, layout: Layout, most: int) -> pa.Table:
    """Read the columns that identify a cell, and its count."""
    names = [*([] if layout.along is None else ["level"]), *layout.table.dimensions]
    return FORMATS[prior.format].read_codes(prior.folder / prior.file, names, "count", most)


def _places(rows: pa.Table, layout: Layout, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the flat position of each row's cell in a level; -1 where it is not in the level."""
    index = np.zeros(rows.num_rows, np.int64)
    if layout.along is not None:
        along, column = layout.along, rows[layout.along.name]
        named = {
            (along.levels[along.depth[node]], along.node_codes[node]): at for at, node in enumerate(nodes)
        }
        levels, of_level = _coded(rows["level"])
        codes, of_code = _coded(column)
        table = np.array([[named.get((level, code), -1) for code in codes] for level in levels], np.int64)
        index = table.reshape(len(levels), len(codes))[of_level, of_code]
    for domain in layout.others:
        known = {code: at for at, code in enumerate(domain.codes)}
        codes, of_code = _coded(rows[domain.name])
        known_codes = np.array([known.get(code, -1) for code in codes], np.int64)[of_code]
        index = np.where((index >= 0) & (known_codes >= 0), index * domain.size + known_codes, -1)
    return index


def _coded(column: pa.ChunkedArray) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Return the texts of a column, and the index of each row's text."""
    if column.null_count:
        raise pa.ArrowInvalid("a row without a code")
    if pa.types.is_dictionary(column.type):  # texts in every row may be too long for the memory
        made = column.unify_dictionaries().combine_chunks()
    else:
        made = pa.compute.dictionary_encode(column.cast(pa.string())).combine_chunks()
    joined = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    return joined.dictionary.to_pylist(), np.asarray(joined.indices).astype(np.int64)
