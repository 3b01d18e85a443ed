"""The same tables give the same bytes in every format, whatever the clock and the order of hashing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.tasks.publish.formats.a_release import a_release

WRITE = """
import sys
from pathlib import Path
import numpy as np
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.formats.base import write_formats
from tabularium.tasks.publish.published_tables import PublishedTable, published_table
from tabularium.validations.release_spec.load import load_spec

loaded, out = load_spec(sys.argv[1]), Path(sys.argv[2])
tables = {}
for table in loaded.spec.tables:
    layout = Layout.of(loaded, table)
    values = np.arange(layout.nodes * layout.cells, dtype=float).reshape(layout.nodes, -1)
    frame = published_table(layout, Estimate(values, np.ones((layout.nodes, 1))), values % 7, whole=True,
                            quality=loaded.spec.publication.quality)
    tables[table.name] = PublishedTable(table, layout, frame, "exact")
write_formats(loaded, tables, out)
"""


def test_every_format_is_written_again_byte_for_byte(tmp_path: Path) -> None:
    a_release(tmp_path, ", ".join(FORMATS))
    found = []
    for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo")):
        out = tmp_path / seed
        out.mkdir()
        settings = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone}
        subprocess.run(
            [sys.executable, "-c", WRITE, str(tmp_path / "small.yaml"), str(out)],
            env=settings,
            check=True,
            cwd=Path(__file__).parents[4],
        )
        found.append(
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}
        )
    assert len(found[0]) >= 8
    assert found[0] == found[1]
