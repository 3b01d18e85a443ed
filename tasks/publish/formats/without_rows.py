"""Every format of a spec, written without rows before anything is charged: what no writer takes shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.formats.writers import write_formats
from tabularium.tasks.publish.published_tables import PublishedTable, histogram_table, published_table
from tabularium.validations.spec.load import Loaded


def write_without_rows(loaded: Loaded, folder: Path) -> None:
    """Write the tables of a spec into a folder, in each of its formats, as if no number of them was known."""
    spec = loaded.spec
    tables: dict[str, PublishedTable] = {}
    for table in spec.tables:
        layout = Layout.of(loaded, table)
        nothing = np.broadcast_to(np.inf, (layout.nodes, layout.cells))
        frame = published_table(
            layout,
            Estimate(nothing, nothing),
            nothing,
            whole=spec.postprocessing.rounding,
            quality=spec.publication.quality,
            measures=lambda _nodes: {},  # there are none, and of none nothing is asked
        )
        tables[table.name] = PublishedTable(table, layout, frame, "exact")
    for histogram in spec.histograms:
        frame = histogram_table(np.zeros((0, 2), np.int64))
        layout = Layout.of_histogram(histogram)
        tables[histogram.name] = PublishedTable(histogram, layout, frame, "none")
    write_formats(loaded, tables, folder)
