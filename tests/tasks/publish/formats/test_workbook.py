"""Names of sheets, and tables that no sheet holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.formats.xlsx import Xlsx, sheet_names
from tabularium.tasks.publish.frames import Frame
from tabularium.tasks.publish.published_tables import PublishedTable
from tests.validations.spec.spec_samples import SPEC, block, changed, load, problems_of

LONG = "a_table_with_a_name_that_is_longer_than_a_sheet_may_have"


def test_names_of_sheets_are_short_and_unique() -> None:
    names = [f"{LONG}_{place}" for place in range(12)] + ["notes", "history", "short"]
    found = sheet_names(dict.fromkeys(names))
    assert found["short"] == "short"
    assert found["notes"] == "notes~2"  # the other one, but for a capital letter
    assert found["history"] == "history~2"  # Excel keeps this one for itself
    assert all(len(sheet) <= 31 for sheet in found.values())
    assert len({sheet.casefold() for sheet in found.values()} | {"notes"}) == len(names) + 1


BIG = changed("{from: 0, to: 99, edges: [5, 18, 65]}", "{from: 0, to: 87381}", SPEC)  # 6 nodes x 2 x 87 382


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (changed("87381", "87380", BIG), True),
        (BIG, False),
    ],
)
def test_a_table_that_no_sheet_holds_is_refused_before_the_run(tmp_path: Path, text: str, fits: bool) -> None:
    wanted = block("publication", "publication: {formats: [csv, xlsx]}", text)
    found = problems_of(tmp_path, wanted)
    assert (found == ()) is fits
    if not fits:
        assert [problem.field for problem in found] == ["tables[0]"]
        assert "rows, and a sheet of a workbook holds 1048573 below its header" in found[0].what
    assert problems_of(tmp_path, text) == ()


def test_a_histogram_that_no_sheet_holds_is_refused_when_it_is_known(tmp_path: Path) -> None:
    extra = 'histograms:\n  - {name: sizes, of: household, share: "1/4"}\n'
    loaded = load(tmp_path, SPEC + extra)
    entry = loaded.spec.histograms[0]
    frame = pa.table({"size": range(1_048_576), "number": [1] * 1_048_576})
    table = PublishedTable(entry, Layout.of_histogram(entry), Frame.of(frame), "none")
    with pytest.raises(PublicationError, match=r"table sizes: has 1048576 rows.*take xlsx out"):
        Xlsx().finish(loaded, {"sizes": table}, tmp_path)
