"""One small table, grouped by the engine: the same counts as record by record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.count import count as counting
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.validations.release_spec.load import load_spec

SPEC = """\
product: grouped
dataset: people
period: "2026"
source: {{path: people.parquet}}
privacy: {{unit: {unit}, budget: "1"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  age: {{integer: {{from: 0, to: 9}}, nulls: other, invalid: other, other: unknown}}
tables:
  - {{name: ages, dimensions: [area, age], levels: {{nation: "1/2", province: "1/2"}}{where}}}
"""


@pytest.mark.parametrize("unit", ["record", "{column: person}, max_contributions: 2"])
@pytest.mark.parametrize("where", ["", ', where: "age >= 3"'])
def test_grouped_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, where: str) -> None:
    rng = generator(7)
    areas = [f"P{n // 5}A{n}" for n in range(20)]
    lines = ["code,label,parent", "N,N,", *(f"P{n},P{n},N" for n in range(4))]
    (tmp_path / "areas.csv").write_text("\n".join([*lines, *(f"{a},{a},{a[:2]}" for a in areas)]) + "\n")
    people = {
        "area": rng.choice([*areas, "nowhere"], 3000).tolist(),
        "age": [None if age > 11 else int(age) for age in rng.integers(-1, 14, 3000)],
        "person": rng.integers(0, 1500, 3000).tolist(),
    }
    pq.write_table(pa.table(people), tmp_path / "people.parquet")

    (tmp_path / "spec.yaml").write_text(SPEC.format(unit=unit, where=where))
    loaded = load_spec(tmp_path / "spec.yaml")
    handle = ingest_source(loaded, bytes(32), tmp_path)
    found, asked = [], []
    monkeypatch.setattr(
        counting,
        "_add_grouped",
        lambda *given, really=counting._add_grouped: (asked.append(1), really(*given))[1],
    )
    for most in (counting._GROUPED, 0):
        monkeypatch.setattr(counting, "_GROUPED", most)
        counted = counting.count_tables(loaded, handle, tmp_path, secret=bytes(32), bounding="00" * 16)
        found.append({level: np.load(file.path) for level, file in counted.tables["ages"].items()})
    assert len(asked) == 1
    for level, counts in found[0].items():
        assert (counts == found[1][level]).all()
    assert found[0]["nation"].sum() > 900
