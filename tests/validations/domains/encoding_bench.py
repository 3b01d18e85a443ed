"""A table of raw values, coded by the engine, and brought back as plain lists."""

from __future__ import annotations

from typing import Any

import ibis
import pyarrow as pa

from tabularium.tasks.ingest.open_source import first_row, quietly
from tabularium.validations.domains.domains import CategoryDomain, Domain, HierarchyDomain, NumberDomain
from tabularium.validations.domains.encoding import coded, coded_names

__all__ = ["categories", "code_all", "first_row", "integers", "tree"]


def code_all(values: Any, domain: Domain, kind: pa.DataType | None = None) -> dict[str, list[Any]]:
    """Code one column; return its codes, null and invalid flags, and whole numbers, row by row."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    table = ibis.memtable(pa.table({"row": pa.array(range(len(array))), "raw": array}))
    domains = {domain.name: domain}
    names = coded_names(domains)[domain.name]
    expression = coded(table, {domain.name: "raw"}, domains).order_by("row")
    result = quietly(expression.to_pyarrow).to_pydict()
    return {
        "code": result[names.code],
        "null": result[names.null],
        "invalid": result[names.invalid],
        "value": result[names.value] if names.value is not None else [],
    }


def categories(*codes: str, **options: Any) -> CategoryDomain:
    return CategoryDomain("column", codes, codes, **options)


def integers(*edges: int, **options: Any) -> NumberDomain:
    labels = tuple(map(str, edges[:-1])) + ((options["other"],) if "other" in options else ())
    return NumberDomain("column", edges, labels, **options)


def tree(parents: list[int], levels: tuple[str, ...], **options: Any) -> HierarchyDomain:
    """A hierarchy from parents in breadth-first order; the code of node i is ``n<i>``."""
    import numpy as np

    depth = np.zeros(len(parents), np.int64)
    for node, parent in enumerate(parents):
        depth[node] = 0 if parent < 0 else depth[parent] + 1
    codes = tuple(f"n{node}" for node in range(len(parents)))
    return HierarchyDomain("column", codes, codes, np.array(parents), depth, levels, **options)
