"""Any rows of a table can be made by themselves, and are those that stand there when all are made at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish import frames, published_tables
from tabularium.tasks.publish.frames import Frame
from tabularium.tasks.publish.published_tables import measurement_table, published_table
from tabularium.validations.release_spec.publication import Quality
from tests.validations.release_spec.spec_samples import SPEC, load


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    loaded = load(tmp_path, SPEC)
    return Layout.of(loaded, next(table for table in loaded.spec.tables if table.along is not None))


def labels(layout: Layout, node: int, cell: int) -> list[str]:
    """The codes of a cell, worked out from its place."""
    places = iter(np.unravel_index(cell, [domain.size for domain in layout.others]))
    found = []
    for name in layout.table.dimensions:
        if name == layout.table.along:
            assert layout.along is not None
            found.append(layout.along.node_codes[node])
        else:
            found.append(next(d for d in layout.others if d.name == name).codes[int(next(places))])
    return found


def require_parts(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """See that any part is what stands there in the whole, whatever the size of row groups; return the whole."""
    whole = frame.whole()
    assert whole.schema == frame.schema
    rows = frame.num_rows
    assert whole.num_rows == rows > 5
    for first, last in ((0, 1), (3, 5), (5, 5), (1, rows), (rows - 2, rows)):
        assert frame.make(first, last).to_pylist() == whole.slice(first, last - first).to_pylist()
    monkeypatch.setattr(frames, "ROWS", 5)
    parts = list(frame.parts())
    assert [part.num_rows for part in parts[:-1]] == [5] * (len(parts) - 1)
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()
    return whole


@pytest.mark.parametrize("strip", [1 << 20, 5, 7])
def test_parts_of_a_published_table(layout: Layout, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "ROWS", strip)
    values = np.arange(layout.nodes * layout.cells, dtype=float).reshape(layout.nodes, -1)
    variances = np.ones((layout.nodes, 1))
    variances[1] = np.inf  # not measured: it has no rows
    half = np.where(values % 4 == 0, np.inf, values % 3)
    rules = Quality.model_validate({"suppress": "50%"})
    frame = published_table(layout, Estimate(values, variances), half, whole=True, quality=rules)
    whole = require_parts(frame, monkeypatch)
    nodes = [node for node in range(layout.nodes) if node != 1]
    cells = [(node, cell) for node in nodes for cell in range(layout.cells)]
    assert whole.num_rows == len(cells)
    codes = zip(*(whole[name].to_pylist() for name in layout.table.dimensions), strict=True)
    assert [list(each) for each in codes] == [labels(layout, *each) for each in cells]
    blank = whole["quality"].cast(pa.string()).to_numpy() == "suppressed"
    assert blank.any()
    assert whole["count"].is_null().to_numpy().tolist() == blank.tolist()
    assert whole["count"].drop_null().to_pylist() == values[nodes].reshape(-1)[~blank].astype(int).tolist()


def _some(layout: Layout, strip: int) -> NDArray[np.bool_]:
    impossible = np.random.default_rng(strip).random((layout.nodes, layout.cells)) < 0.4
    impossible[layout.cuts[layout.finest][0]] = True  # a strip may have no row at all
    return impossible


@pytest.mark.parametrize("strip", [1 << 20, 5, 2])
def test_parts_of_a_measurement(layout: Layout, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "ROWS", strip)
    monkeypatch.setattr(published_tables, "ROWS", strip)
    impossible = _some(layout, strip)
    cut = Layout(layout.table, layout.along, layout.others, layout.parents, layout.cuts, impossible)
    possible = cut.possible(cut.finest)
    assert possible is not None
    drawn = np.arange(int(possible.sum())) * 3
    whole = require_parts(measurement_table(cut, cut.finest, drawn), monkeypatch)
    there = np.argwhere(~impossible[cut.cuts[cut.finest]])
    codes = zip(*(whole[name].to_pylist() for name in cut.table.dimensions), strict=True)
    expected = [labels(cut, int(cut.cuts[cut.finest][node]), int(cell)) for node, cell in there]
    assert [list(each) for each in codes] == expected
    assert whole["measured"].to_pylist() == drawn.tolist()


def test_parts_of_another_array(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = require_parts(measurement_table(layout, layout.finest, np.arange(42).reshape(6, 7)), monkeypatch)
    assert whole["index_0"].to_pylist() == [row for row in range(6) for _ in range(7)]
    assert whole["index_1"].to_pylist() == [*range(7)] * 6
    empty = measurement_table(layout, layout.finest, np.zeros((0, 2), np.int64))
    assert [part.num_rows for part in empty.parts()] == [0]
    assert empty.schema.names == ["index_0", "index_1", "measured"]
    (alone,) = measurement_table(layout, layout.finest, np.array(5)).parts()
    assert alone.to_pydict() == {"measured": [5]}


def test_numbers_that_end_in_other_bits_are_published_as_the_same(layout: Layout) -> None:
    values = 1000 / np.arange(3.0, 3 + layout.nodes * layout.cells).reshape(layout.nodes, -1)
    known = np.ones((layout.nodes, 1))
    half = np.sqrt(values)
    one, other = (
        published_table(layout, Estimate(values * by, known), half * by, whole=False).whole()
        for by in (1.0, 1 + 4e-16)
    )
    assert not np.array_equal(values, values * (1 + 4e-16))
    assert one.equals(other)
    assert np.allclose(one["count"].to_numpy(), values.ravel(), rtol=1e-11)
