"""Rates that cannot be: each is refused with one line that says how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries import Attribute, Axes, QueryTable, ask
from tabularium.validations.release_spec.load import examine
from tabularium.validations.release_spec.summary import summarise

TEXT = """\
product: pay
dataset: census
period: "2026"
source: {{path: people.csv}}
privacy: {{unit: record, budget: "1"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, place]}}
  trade: {{hierarchy: areas.csv, levels: [nation, place]}}
  sex: {{categories: [f, m]}}
  work: {{categories: [some, none, unknown], nulls: other, other: unknown}}
tables:
  - name: pay
    dimensions: [area, sex, trade]
    measures: {{a: {measure}}}
  - {{name: nation, dimensions: [area], levels: {{nation: "1"}}}}
  - {{name: trades, dimensions: [trade]}}
  - {{name: works, dimensions: [sex, work]}}
  - {{name: merged, dimensions: [sex], mechanism: noise_first}}
  - {{name: places, dimensions: [area, sex], levels: {{place: "1"}}}}
invariants:
  - {{name: top, dimensions: [area], level: nation, values: top.csv, reason: registry}}
{figures}"""
HEADS = "  - {name: heads, dimensions: [sex], values: heads.csv, reason: registry}\n"


def problems(folder: Path, measure: str, figures: str = "") -> list[tuple[str, str]]:
    (folder / "areas.csv").write_text("code,label,parent\nN,N,\nP,P,N\nQ,Q,N\n")
    (folder / "top.csv").write_text("area,count\nN,12\n")
    (folder / "heads.csv").write_text("sex,count\nf,5\nm,7\n")
    path = folder / "spec.yaml"
    path.write_text(TEXT.format(measure=measure, figures=figures and f"figures:\n{figures}"))
    return [(each.field, each.what) for each in examine(path).problems]


@pytest.mark.parametrize(
    ("measure", "figures"),
    [
        ('{rate: "work = some"}', ""),
        ('{percent: "work is not null and pay is null", over: places, weight: {column: w, to: 9}}', ""),
        ('{rate: "work = some", over: heads}', HEADS),
        ('{rate: "work = some", over: pay}', ""),
    ],
)
def test_good_rates(tmp_path: Path, measure: str, figures: str) -> None:
    assert problems(tmp_path, measure, figures) == []
    found = examine(tmp_path / "spec.yaml").loaded
    assert found is not None
    (scale,) = {
        level.scale
        for table in summarise(found).tables
        for level in table.levels
        if table.name == "pay-a" and level.scale
    }
    heaviest = 9 if "weight" in measure else 1
    assert scale == pytest.approx(float(heaviest / found.spec.losses["pay-a", "place"]))


@pytest.mark.parametrize(
    ("measure", "field", "what"),
    [
        ('{rate: "wrok = some"}', "a.rate", "there is no attribute `wrok`"),
        ('{rate: "work = some", over: pay, weight: {column: w, to: 9, x: 1}}', "a.weight.x", "no key `x`"),
        ('{rate: "pay = 3"}', "a.rate", "there is no attribute `pay`"),
        ('{percent: "sex is not null"}', "a.percent", "`sex` is never null in what is counted"),
        ('{percent: "sex = f and sex = m"}', "a.percent", "no value of `sex` passes its tests"),
        ('{percent: "pay is null and pay is not null"}', "a.percent", "no value of `pay` passes its tests"),
        ('{percent: "sex = f", rate: "sex = f"}', "a", "has `rate` and `percent`"),
        ('{percent: "sex = f", per: 10}', "a.per", "is 100 of a percentage"),
        ('{rate: "sex = f", to: 1}', "a.to", "a rate or percent has no `to`"),
        ('{rate: "sex = f", step: 2}', "a.step", "a rate or percent has no `step`"),
        ("{sum: pay, from: 0, to: 9, per: 10}", "a.per", "a sum has no `per`"),
        ("{mean: pay, from: 0}", "a.to", "`to` is missing"),
        ('{rate: "sex = f", over: nobody}', "a.over", "there is nothing of the name `nobody`"),
        ('{rate: "sex = f", over: works}', "a.over", "`works` has `work`, which this table has not"),
        ('{rate: "sex = f", over: merged}', "a.over", "errors of an unknown distribution by noise_first"),
        ('{rate: "sex = f", over: nation}', "a.over", "along `area` `nation` stops at `nation`"),
        ('{rate: "sex = f", over: trades}', "a.over", "the levels of `trade`, which this table has only at"),
        ('{rate: "sex = f", over: top}', "a.over", "along `area` `top` stops at `nation`"),
    ],
)
def test_bad_rates(tmp_path: Path, measure: str, field: str, what: str) -> None:
    (found,) = problems(tmp_path, measure)
    assert found[0] == f"tables[0].measures.{field}"
    assert what in found[1]


@pytest.mark.parametrize(
    ("figures", "field", "what"),
    [
        (HEADS, "figures[0]", "no rate is over these numbers"),
        (HEADS.replace("heads,", "pay,"), "figures[0].name", "table 1 has this name too"),
        (HEADS.replace("[sex]", "[gender]"), "figures[0].dimensions[0]", "there is no column `gender`"),
        (HEADS.replace(", values: heads.csv", ""), "figures[0]", "needs `values` or `count`"),
    ],
)
def test_bad_figures(tmp_path: Path, figures: str, field: str, what: str) -> None:
    over = "" if "name: pay" in figures or figures == HEADS else ", over: heads"
    found = problems(tmp_path, f'{{rate: "work = some"{over}}}', figures)
    assert any(where == field and what in said for where, said in found), found


def test_a_release_is_not_asked_for_nulls() -> None:
    axes = Axes(None, (Attribute.categories("sex", ["f", "m"]),))
    with pytest.raises(InputError, match="character 13: a release does not say which values were null"):
        ask("count where sex is not null", [QueryTable("people", axes)], level=0.9)
