"""``publication.review``: what may be written, and what of it is published."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tabularium.tasks.forecast.describe_check import render
from tabularium.tasks.forecast.forecast import forecast
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.problems import format_problems
from tabularium.validations.release_spec.summary import summarise
from tests.validations.release_spec.spec_samples import SPEC, load, problems_of


@pytest.mark.parametrize(
    ("text", "field", "what"),
    [
        ("mayor", "review", "is not `officer`"),
        ("{by: mayor}", "review.by", "`mayor`"),
        ("{criteria: []}", "review.criteria", "empty"),
        ("{criteria: [a, a]}", "review.criteria", "twice"),
        ("{criteria: [A b]}", "review.criteria[0]", "fits"),
        ("{folder: releases/x}", "review.folder", "published"),
        ("{folder: ./releases}", "review.folder", "published"),
        ("{grup: officers}", "review", "grup"),
    ],
)
def test_mistakes_in_a_review(tmp_path: Path, text: str, field: str, what: str) -> None:
    found = problems_of(tmp_path, SPEC + f"publication: {{review: {text}}}\n")
    said = [p for p in found if p.field.startswith(f"publication.{field}") and what in f"{p.field} {p.what}"]
    assert said and said[0].line and said[0].hint, format_problems(found)


def test_a_workspace_is_not_kept_where_a_draft_is_reviewed(tmp_path: Path) -> None:
    found = problems_of(tmp_path, SPEC + "publication: {review: officer}\nworkspace: {keep: true}\n")
    assert [problem.field for problem in found] == ["workspace.keep"]
    assert not problems_of(tmp_path, SPEC + "publication: {review: officer}\nworkspace: {keep: false}\n")


def test_a_review_is_published_without_where_its_drafts_lie_and_a_written_default_is_the_same(
    tmp_path: Path,
) -> None:
    plain = load(tmp_path, SPEC + "publication: {review: officer}\n")
    written = "{by: officer, criteria: [error-in-processing, implausible, margins-too-wide], group: them, folder: x}"
    full = load(tmp_path, SPEC + f"publication: {{review: {written}}}\n")
    assert plain.digest == full.digest
    assert full.published_spec["publication"]["review"] == {
        "by": "officer",
        "criteria": ["error-in-processing", "implausible", "margins-too-wide"],
    }
    assert ReleaseSpec.model_validate(plain.published_spec).publication == plain.spec.publication


def test_check_says_that_an_officer_decides(tmp_path: Path) -> None:
    loaded = load(tmp_path, SPEC + "publication: {review: {criteria: [odd]}}\n")
    console = Console(width=200)
    with console.capture() as said:
        console.print(render(summarise(loaded), forecast(loaded)))
    assert "Review: an officer may withhold it before it is published (odd)" in said.get()
