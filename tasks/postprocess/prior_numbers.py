"""The numbers that an earlier release published for the cells of a table, read back by codes.

Cells are found by the codes of their dimensions, not by their place: lists may have changed since.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from numpy.typing import NDArray

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import LONGEST_ROW, sha256_of
from tabularium.tasks.public_tables import open_csv, open_parquet
from tabularium.validations.domains.known_marginals import PriorTable
from tabularium.validations.public_files import LARGEST_JSON, Unreadable

_FEW_ROWS, _TIMES = 1 << 20, 16
_FEW_BYTES, _BYTES_OF_A_ROW = 1 << 26, 128
MOST_COUNTED = 1 << 53
"""Records of a cell: beyond that, infinity for one, it is no count, and cannot be drawn towards."""


def prior_numbers(prior: PriorTable, layout: Layout, level: str) -> NDArray[np.float64]:
    """Return what was published before for the cells of one level of a table.

    Parameters
    ----------
    prior
        Where it lies.
    layout, level
        The table, and the level whose cells are wanted.

    Returns
    -------
    (nodes of the level, cells) counts; not a number where none was published.

    Raises
    ------
    PublicationError
        The file is not the one that the certificate names.
    """
    where = f"release {prior.release}, {prior.file}"
    place = prior.folder / prior.file
    nodes = layout.cuts[level]
    found = np.full(len(nodes) * layout.cells, np.nan)
    try:
        # Lists may have become shorter since, but not to a part of what they were.
        most = _TIMES * layout.nodes * layout.cells
        if sha256_of(prior.folder, prior.file, LARGEST_JSON + most * LONGEST_ROW) == prior.digest:
            rows = _rows(place, layout, _FEW_ROWS + most)
            at = _places(rows, layout, nodes)
            counts = rows["count"].cast(pa.float64()).fill_null(np.nan).to_numpy()
            if (counts > MOST_COUNTED).any():
                raise pa.ArrowInvalid("more records than there are")
            known = (at >= 0) & (counts >= 0)
            found[at[known]] = counts[known]
            return found.reshape(len(nodes), layout.cells)
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


def _rows(place: Path, layout: Layout, most: int) -> pa.Table:
    """Read the columns that tell a cell, as text, and its count."""
    names = [*([] if layout.along is None else ["level"]), *layout.table.dimensions]
    if place.suffix == ".parquet":
        with open_parquet(place, rows=None, most=most, columns=[*names, "count"]) as file:
            return file.read(columns=[*names, "count"])
    text = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
    options = pa.csv.ConvertOptions(
        include_columns=[*names, "count"],
        column_types={**text, "count": pa.float64()},
        strings_can_be_null=False,
    )
    with open_csv(place, largest=_FEW_BYTES + most * _BYTES_OF_A_ROW) as text_file:
        return pa.csv.read_csv(text_file, convert_options=options)


def _places(rows: pa.Table, layout: Layout, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the cell of each row lies among those of a level, flat; -1 where it is none of them."""
    place = np.zeros(rows.num_rows, np.int64)
    if layout.along is not None:
        along, column = layout.along, rows[layout.along.name]
        named = {
            (along.levels[along.depth[node]], along.node_codes[node]): at for at, node in enumerate(nodes)
        }
        levels, of_level = _coded(rows["level"])
        codes, of_code = _coded(column)
        table = np.array([[named.get((level, code), -1) for code in codes] for level in levels], np.int64)
        place = table.reshape(len(levels), len(codes))[of_level, of_code]
    for domain in layout.others:
        known = {code: at for at, code in enumerate(domain.codes)}
        codes, of_code = _coded(rows[domain.name])
        own = np.array([known.get(code, -1) for code in codes], np.int64)[of_code]
        place = np.where((place >= 0) & (own >= 0), place * domain.size + own, -1)
    return place


def _coded(column: pa.ChunkedArray) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Return the texts of a column, and which of them each row has."""
    if column.null_count:
        raise pa.ArrowInvalid("a row without a code")
    if pa.types.is_dictionary(column.type):  # texts in every row may be too long for the memory
        made = column.unify_dictionaries().combine_chunks()
    else:
        made = pa.compute.dictionary_encode(column.cast(pa.string())).combine_chunks()
    whole = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    return whole.dictionary.to_pylist(), np.asarray(whole.indices).astype(np.int64)
