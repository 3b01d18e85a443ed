"""A release in every format, with what is awkward: formulas for codes, histograms, flags."""

from __future__ import annotations

from pathlib import Path

from tests.flows.release.scene import publish, write_scene

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


def a_release(folder: Path, formats: str = "csv, parquet, xlsx, catalogue", quality: str = QUALITY) -> Path:
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
