"""A plan in a spec file: comments, order and everything else stay, and it says what was planned."""

from __future__ import annotations

import difflib
import re
from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.finished_plan import check_written, planned_text
from tabularium.tasks.plan.planning import plan
from tabularium.validations.release_spec.load import load_spec
from tests.tasks.plan.planned_specs import loaded, published, true_counts

BLOCK = """\
    share: "1/2"   # half of it
    levels:
      # from the top
      nation: "1/4"
      province: "1/4"

      place: "1/2"
    # levels come after this line
  - dimensions:
      - age
      - sex
    name: ages
    share: "50%"
    mechanism: identity
"""


def changes(before: str, after: str) -> list[str]:
    """The lines that differ, with - and + in front."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0)
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_only_what_was_planned_changes(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    before = made.path.read_text()
    after = planned_text(plan(made))
    found = changes(before, after)
    said = [re.sub(r"nation: N, ", "", re.sub(r'"[\d./]+"', "N", line)) for line in found]
    assert said == [
        "-privacy: {unit: record, relation: add-remove, budget: N}",
        "+privacy: {unit: record, relation: add-remove, budget: N}",
        "+    share: N",
        "+    levels: {place: N}",
        "-  - {name: ages, dimensions: [age, sex]}",
        "+  - {name: ages, share: N, dimensions: [age, sex]}",
    ]


@pytest.mark.parametrize("shape", ["as it is", "blocks", "quoted keys"])
def test_what_is_written_reads_back_as_the_plan(tmp_path: Path, shape: str) -> None:
    made = loaded(tmp_path)
    text = made.path.read_text()
    if shape == "blocks":
        first = text.index("    # levels come")
        text = text[:first] + BLOCK + text[text.index("targets:") :]
    elif shape == "quoted keys":
        text = text.replace("levels: [nation,", 'levels: ["0",').replace("level: nation", 'level: "0"')
        text = text.replace("dimensions: [area", '"share": "1/3"\n    "dimensions": [area')
        text = text.replace("name: ages,", 'name: ages, share: "2/3",')
    made.path.write_text(text)
    found = plan(load_spec(made.path))
    after = planned_text(found)
    made.path.with_name("other.yaml").write_text(after)
    check_written(made.path.with_name("other.yaml"), found)
    comments = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    kept = [comment for comment in comments if comment in after]
    assert kept == [comment for comment in comments if "from the top" not in comment]


def test_the_release_it_was_tuned_on_is_recorded_and_taken_out_again(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    like = published(tmp_path / "like", made, true_counts(made, 20_000))
    found = plan(made, like=like)
    text = planned_text(found)
    assert f'tuning: {{release: "r-1", certificate: "{"a" * 64}"}}\ntables:' in text
    made.path.write_text(text)
    check_written(made.path, found)
    assert "tuning" not in planned_text(plan(load_spec(made.path)))


def test_a_file_that_says_otherwise_is_refused(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    found = plan(made)
    with pytest.raises(InputError, match="cannot be put into this file"):
        check_written(made.path, found)


def test_short_decimals_are_written_as_decimals(tmp_path: Path) -> None:
    text = planned_text(plan(loaded(tmp_path), budget=Fraction(1, 3)))
    assert 'budget: "1/3"' in text
    text = planned_text(plan(loaded(tmp_path), budget=Fraction(1, 8)))
    assert 'budget: "0.125"' in text
