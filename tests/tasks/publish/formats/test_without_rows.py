"""What no format can write is found before anything is charged."""

from __future__ import annotations

from pathlib import Path

from tabularium.tasks.publish.formats.base import write_without_rows
from tabularium.validations.release_spec.publication_formats import FORMATS, files_of
from tests.validations.release_spec.spec_samples import changed, load

MORE = (
    f'publication: {{formats: [{", ".join(FORMATS)}], quality: {{suppress: "50%"}}, sdmx: {{agency: TEST}}}}\n'
    'histograms: [{name: homes, of: home, share: "1/10"}]\n'
)
ADDED = "  measure_m: {from: sex, categories: [x, y]}\ntables:\n  - {name: last, dimensions: [measure_m], SHARES}\n"
MEASURES = 'share: "1/10", measures: {m: {mean: pay, from: 0, to: 9}}'


def test_every_format_is_written_without_rows(tmp_path: Path) -> None:
    text = changed("tables:\n", ADDED.replace("SHARES", MEASURES)).replace('"1/3"\n', '"7/30"\n')
    loaded = load(tmp_path, text + MORE)
    written = tmp_path / "written"
    written.mkdir()
    write_without_rows(loaded, written)
    names = {path.name for path in written.iterdir()}
    assert files_of(loaded.spec) <= names and {"last.csv", "last.parquet", "homes.csv"} <= names
    assert len((written / "last.csv").read_text().splitlines()) == 1
