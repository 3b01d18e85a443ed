"""A release in every format with what is awkward, formulas for codes, histograms, flags; and made-up tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.formats.base import write_formats
from tabularium.tasks.publish.published_tables import PublishedTable, histogram_table, published_table
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.flows.release.scene import publish, write_scene
from tests.flows.release.test_measures import with_measures
from tests.validations.release_spec.spec_samples import write_spec

ABOUT = """\
about:
  title: Persons by age and sex
  description: Persons of a small country.
  curator: {name: Office, url: "https://example.org/", email: data@example.org}
  region: {code: XA, label: Examplia}
  licence: https://creativecommons.org/licenses/by/4.0/
  keywords: [population, "age, and sex"]
  url: https://example.org/persons
"""
QUALITY = '{unreliable: "10%", suppress: "25%", at_least: 5}'


def a_release(folder: Path, formats: str = "csv, parquet, catalogue", quality: str = QUALITY) -> Path:
    """Publish it; return its folder."""
    spec, home = write_scene(folder, rows=3000, budget="3")
    text = spec.read_text()
    text = text.replace(
        'sex: {categories: {"1": male, "2": female}}',
        'sex: {title: "Sex, as registered", categories: {"1": "=1+1", "2": "@x\\", y"}}\n'
        '  kind: {categories: {"=1+1": plus, "+A1": "=cmd|x", "-2": "<r>a & b</r>", "@x": at, "a.b|c": dots}, invalid: other, other: "@x"}',
    )
    text = text.replace(
        "    dimensions: [age, sex]\n", "    title: Ages and sexes\n    dimensions: [age, sex, kind]\n"
    )
    text = text.replace(
        "tables:\n",
        "histograms:\n  - {name: sizes_of_areas, title: Sizes, of: area, share: 1/10}\ntables:\n",
    )
    judged = f", quality: {quality}" if quality else ""
    text = text.replace("{folder: releases}", f"{{folder: releases, formats: [{formats}]{judged}}}")
    spec.write_text(text + ABOUT)
    data = folder / "people.csv"
    head, *rows = data.read_text().splitlines()
    kinds = ["=1+1"] * 70 + ["+A1"] * 23 + ["-2"] * 6 + ["@x"]  # from many to few: every flag
    lines = [f"{head},kind", *(f"{row},{kinds[place // 6 % 100]}" for place, row in enumerate(rows))]
    data.write_text("\n".join(lines) + "\n")
    return Path(publish(spec, home).folder)


AREAS = 'code,label,parent\n0,"Country & <all>",\nN/W,North,0\nS,South,0\nN1,Nörd,N/W\nN$2,Northfield,N/W\nS 1,Southbridge,S\n'
SPEC = """\
product: persons-2
dataset: census
period: "2026-H1"
source: {path: persons.csv}
privacy: {unit: record, relation: add-remove, budget: "1"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, region, place], title: Where they live}
  size: {integer: {from: 0, to: 99, edges: [5, 18]}, nulls: other, other: "?"}
  Größe: {categories: {"1,5": small, "\\"2\\"": large, x: "it's"}}
tables:
  - {name: area_size, dimensions: [area, size], title: "Persons, by area & size"}
  - {name: sizes, dimensions: [Größe, size]}
histograms:
  - {name: households, of: household, share: "1/10"}
publication:
  formats: [csv, sdmx]
  quality: {unreliable: 3, suppress: 6}
  sdmx: {agency: NSO.POP, version: "2.1.0"}
about: {title: Persons, language: fr}
"""


def as_published(loaded: Loaded, *, whole: bool = True) -> dict[str, PublishedTable]:
    """Tables of numbers that are drawn here; margins from zero to infinite."""
    rng = np.random.default_rng(3)
    tables = {}
    for table in loaded.spec.tables:
        layout = Layout.of(loaded, table)
        values = rng.integers(0, 2_000_000_000_000, (layout.nodes, layout.cells)) / (1 if whole else 7)
        half = rng.integers(0, 9, values.shape) / (1 if whole else 7)
        half[0, 0] = np.inf
        frame = published_table(
            layout,
            Estimate(values, np.ones(values.shape)),
            half,
            whole=whole,
            quality=loaded.spec.publication.quality,
        )
        tables[table.name] = PublishedTable(table, layout, frame, "exact")
    for histogram in loaded.spec.histograms:
        layout = Layout.of_histogram(histogram)
        frame = histogram_table(np.array([[7, 1], [2, 30], [1, 4]]))
        tables[histogram.name] = PublishedTable(histogram, layout, frame, "none")
    return tables


def written(
    folder: Path, text: str = SPEC, *, whole: bool = True
) -> tuple[Loaded, dict[str, PublishedTable], Path]:
    loaded = load_spec(write_spec(folder, text, {"areas.csv": AREAS}))
    tables = as_published(loaded, whole=whole)
    aside = folder / "aside"
    aside.mkdir()
    write_formats(loaded, tables, aside)
    return loaded, tables, aside


def with_all_measures(folder: Path, formats: str) -> Path:
    """Publish tables with measures of every kind and flags; return the folder."""
    quality = '{unreliable: "30%", suppress: "60%"}'
    spec, home = with_measures(
        folder,
        edit=lambda text: text.replace(
            "[csv, parquet, xlsx, sdmx], sdmx: {agency: TEST}", f"[{formats}], quality: {quality}"
        ),
    )
    return Path(publish(spec, home).folder)
