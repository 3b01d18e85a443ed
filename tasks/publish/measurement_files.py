"""The noisy measurements before post-processing, as they are published and read back.

::

    measurements/<table>.<level>.parquet            one number per cell, where that is all there is
    measurements/<table>.<level>.<array>.parquet    each array of a mechanism that draws something else
    measurements/measurements.json                  what they are: mechanism, parameters, events, arrays

With only these files anyone can do the post-processing of a mechanism again: :func:`read_measurement`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError, PublicationError
from tabularium.mechanisms.inference.margins_of_error.measured_error import UNIT
from tabularium.mechanisms.measured import Measured
from tabularium.tasks import public_folder
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import MOST_CELLS, open_parquet
from tabularium.tasks.publish.frames import Frame
from tabularium.tasks.publish.published_tables import measurement_table
from tabularium.tasks.publish.release_folder import damaged, readable
from tabularium.validations.public_files import Unreadable

if TYPE_CHECKING:
    from tabularium.tasks.measure import Finished

FOLDER = "measurements"
INDEX = "measurements.json"
FORMAT = 1
MOST_NUMBERS = 10_000_000
"""Of an array, besides 64 for each cell of its table: what a mechanism draws besides."""
_MOST_AXES = 32
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)


def measurement_files(
    layout: Layout, parts: dict[str, Finished]
) -> Iterator[tuple[str, Callable[[], Frame]]]:
    """Yield the files of one table's measurements: name, and a function that returns the content.

    ``parts``: level -> what was drawn.
    """
    for level, part in parts.items():
        for key, array in part.measured.arrays.items():
            name = file_name(layout.table.name, level, key, plain=_plain(layout, level, part))
            yield name, partial(measurement_table, layout, level, array)


def described(layout: Layout, parts: dict[str, Finished]) -> list[dict[str, Any]]:
    """Return the entry of one table's measurements in the index, as JSON values."""
    return [_describe(layout, level, part) for level, part in parts.items()]


def index_text(entries: list[dict[str, Any]]) -> str:
    """Return the text of the index."""
    return json.dumps({"format": FORMAT, "measurements": entries}, indent=2, ensure_ascii=False) + "\n"


def file_name(table: str, level: str, array: str, *, plain: bool) -> str:
    """Return the name of the file of one array."""
    return ".".join(filter(None, (table, level, "" if plain else array, "parquet")))


def read_measurement(folder: Path, table: str, level: str = "", *, most: int = MOST_CELLS) -> Measured:
    """Read a published measurement back.

    ``most``: numbers that each of its arrays may have.

    Raises
    ------
    PublicationError
        If the release holds no such measurement.
    """
    entry = indexed(folder, table, level, most=most)
    with readable(folder):
        arrays = {name: _read_array(folder, about) for name, about in entry["arrays"].items()}
    try:
        return Measured.from_document(entry["measured"], arrays)
    except (*_MALFORMED, MechanismError):
        pass
    raise _altered(folder)


def indexed(folder: Path, table: str, level: str = "", *, most: int = MOST_CELLS) -> dict[str, Any]:
    """Return the index entry of a measurement whose arrays have at most so many numbers.

    Raises
    ------
    PublicationError
        If the release holds no such measurement.
    """
    if not (folder / FOLDER).is_dir():
        raise _no_such(folder)
    with readable(folder):
        _, index = public_folder.document(folder, f"{FOLDER}/{INDEX}")
    try:
        entries: list[dict[str, Any]] = index["measurements"]
        entry = next((e for e in entries if (e["table"], e["level"]) == (table, level)), None)
        sound = entry is None or all(_is_sound(array, most) for array in entry["arrays"].values())
    except _MALFORMED:
        sound = False
    if not sound:
        raise _altered(folder)
    if entry is None:
        raise _no_such(folder)
    return entry


def _is_sound(about: dict[str, Any], most: int) -> bool:
    """Whether an array is declared as readable: plain numbers, in a file of the index's folder."""
    sizes = about["shape"]
    return (
        Path(about["file"]).name == about["file"]
        and isinstance(sizes, list)
        and len(sizes) <= _MOST_AXES
        and all(type(size) is int and 0 <= size <= MOST_CELLS for size in sizes)
        and math.prod(sizes) <= most
        and np.dtype(about["dtype"]).kind in "iuf"
    )


def _altered(folder: Path) -> PublicationError:
    return damaged(folder, f"{FOLDER}/{INDEX} is not what a release holds")


def _no_such(folder: Path) -> PublicationError:
    return PublicationError(
        "there is no such measurement in this release",
        where=str(folder),
        hint="see measurements/measurements.json; a release may withhold them",
    )


def _plain(layout: Layout, level: str, part: Finished) -> bool:
    arrays = list(part.measured.arrays.values())
    return len(arrays) == 1 and arrays[0].shape == layout.measured_shape(level)


def _describe(layout: Layout, level: str, part: Finished) -> dict[str, Any]:
    table = layout.table.name
    plain = _plain(layout, level, part)
    entry: dict[str, Any] = {
        "table": table,
        "level": level,
        "measured": part.measured.document(),
        "arrays": {
            key: {
                "file": file_name(table, level, key, plain=plain),
                "dtype": array.dtype.str,
                "shape": list(array.shape),
            }
            for key, array in part.measured.arrays.items()
        },
    }
    if part.error is not None:
        entry["error"] = {
            "what": "sums of |true - released| over the cells of each class of released size, the smallest "
            "first, with noise",
            "measured": [total / UNIT for total in part.error.totals],
            "parts_per_record": UNIT,
            "event": part.error.event.as_dict(),
        }
    return entry


def _read_array(folder: Path, about: dict[str, Any]) -> NDArray[Any]:
    name = f"{FOLDER}/{about['file']}"
    with public_folder.named(name):
        try:
            with open_parquet(folder / name, rows=math.prod(about["shape"]), columns=["measured"]) as file:
                column = file.read(columns=["measured"])["measured"]
            return np.asarray(column.to_numpy()).astype(about["dtype"]).reshape(about["shape"])
        except (OSError, pa.ArrowException, ValueError, KeyError):
            pass
        raise Unreadable("does not hold the numbers that are declared")
