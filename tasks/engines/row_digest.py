"""The digest of records that stay in their engine, whatever order it gives them in.

Each record is written as text that can be read in one way only: of every column its length and its value, or
that it is null. SHA-256 of that is the record's own digest. The engine sorts these digests into :data:`BOXES`
boxes by their first digits, strings together what lies in each box in ascending order, and digests that; the
home digests the boxes in order under its key, with the names and types of the columns.

Why two inputs of one digest are the same records, each as often. Sorted digests in order of boxes are one
text for one multiset of digests: a box is a range of them. So two inputs with one digest but different
records give two different texts with one SHA-256 at the home, in a box, or of a record: a collision of
SHA-256 (or of HMAC-SHA-256, which the key only makes harder). Sums of record digests would be cheaper, and
they are not enough: a sum of 256 bits can be hit on purpose with some 2^32 records (Wagner, *A generalized
birthday problem*, 2002), and a sum that resists is thousands of bits wide, which costs more than sorting.

No key is ever in a statement. What comes back is one digest for each box, to a process that may see every
record; it is stored nowhere, and only its keyed digest goes into a handle.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

BOXES = 4096
"""Boxes of digests: of a thousand million records each has a quarter of a million, 16 megabytes to sort."""
_DIGITS = 3  # hexadecimal: 4096
_ROWS = b"tabularium/input-rows/1\0"
_BOXED = {
    "postgresql": "SELECT substr(h, 1, 3) AS box, "
    "encode(sha256(convert_to(string_agg(h, '' ORDER BY h COLLATE \"C\"), 'UTF8')), 'hex') AS digest, "
    "count(*) AS number FROM ({each}) AS records GROUP BY 1",
    "spark": "SELECT substr(h, 1, 3) AS box, "
    "sha2(concat_ws('', sort_array(collect_list(h))), 256) AS digest, count(*) AS number "
    "FROM ({each}) AS records GROUP BY 1",
}
_SCHEMA = pa.schema([("box", pa.string()), ("digest", pa.string()), ("number", pa.int64())])


def rows_digest(source: Any, columns: Mapping[str, str], secret: bytes) -> str:
    """Return the keyed digest of all records, hexadecimal.

    Parameters
    ----------
    source
        An open engine: its ``name``, ``table``, ``types``, ``sql`` and ``batches`` are used, and it is given
        the number of ``records``.
    columns
        Column of the source -> its name inside the engine.
    """
    each = source.sql(
        source.table.select(h=_as_text(source.table, list(columns.values())).hexdigest("sha256"))
    )
    boxes = [
        row
        for batch in source.batches(_BOXED[source.name].format(each=each), _SCHEMA)
        for row in batch.to_pylist()
    ]
    source.records = sum(box["number"] for box in boxes)
    whole = hmac.new(secret, _ROWS, "sha256")
    for column, name in columns.items():
        for text in (column, source.types[name]):
            whole.update(len(text.encode()).to_bytes(8, "big") + text.encode())
    for box in sorted(boxes, key=lambda each: str(each["box"])):
        whole.update(f"|{box['box']} {box['number']} {box['digest']}".encode())
    return whole.hexdigest()


def _as_text(table: Any, names: list[str]) -> Any:
    """Return a record as text that can be read in one way only."""
    parts = [ibis.literal("record")]
    for name in names:
        text = table[name].cast("string")
        marked = text.length().cast("string").concat(":", text)
        parts += [ibis.ifelse(table[name].isnull(), ibis.literal("-"), marked), ibis.literal(",")]
    first, *rest = parts
    return first.concat(*rest) if rest else first
