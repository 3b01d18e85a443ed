"""docs/spec.md: every example loads, every wrong one says what the page says, every field is there.

A YAML block that begins with `product:` is a whole spec; any other is laid over the smallest spec of the
page, block by block. A block marked `wrong` is followed by the lines that `check` prints. A CSV block is
written beside the spec under the name on its fence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tests.validations.spec.spec_samples import block
from validations.spec import model as models
from validations.spec import rules
from validations.spec.load import examine
from validations.spec.problems import format_problems

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\S+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    line: int
    kind: str
    marks: tuple[str, ...]
    text: str
    answer: str = ""  # the text block that follows


def examples(page: str) -> list[Example]:
    found = [
        Example(page.count("\n", 0, m.start()) + 1, m[1], tuple(m[2].split()), m[3])
        for m in FENCE.finditer(page)
    ]
    after = [*found[1:], Example(0, "", (), "")]
    return [
        Example(e.line, e.kind, e.marks, e.text, n.text if n.kind == "text" else "")
        for e, n in zip(found, after, strict=True)
    ]


BLOCKS = examples(PAGE)
SMALLEST = next(e.text for e in BLOCKS if e.kind == "yaml")
LISTS = {e.marks[0]: e.text for e in BLOCKS if e.kind == "csv" and "wrong" not in e.marks}
GOOD = [e for e in BLOCKS if e.kind == "yaml" and not {"wrong", "comment"} & set(e.marks)]
WRONG = [e for e in BLOCKS if "wrong" in e.marks]


def whole(text: str) -> str:
    """Lay a fragment over the smallest spec."""
    if text.startswith("product:"):
        return text
    spec = SMALLEST
    for part in re.findall(r"^(\w+):(?:.*\n)(?:[ #].*\n|\n)*", text, re.MULTILINE):
        start = re.search(rf"^{part}:", text, re.MULTILINE)
        assert start is not None
        rest = text[start.start() :]
        end = re.search(r"\n(?=\w)", rest)
        spec = block(part, rest[: end.end()] if end else rest, spec)
    return spec


def said(folder: Path, text: str, lists: dict[str, str]) -> str:
    for name, content in lists.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    return format_problems(examine(folder / "spec.yaml").problems)


def test_the_page_has_examples() -> None:
    assert len(SMALLEST.splitlines()) == 10
    assert len(GOOD) >= 4
    assert len(WRONG) >= 7


@pytest.mark.parametrize("example", GOOD, ids=lambda e: f"line{e.line}")
def test_good_examples_load(tmp_path: Path, example: Example) -> None:
    assert said(tmp_path, whole(example.text), LISTS) == ""


@pytest.mark.parametrize("example", WRONG, ids=lambda e: f"line{e.line}")
def test_wrong_examples_say_what_the_page_says(tmp_path: Path, example: Example) -> None:
    if example.kind == "csv":
        everything = next(e.text for e in GOOD if "areas.csv" in e.text)
        found = said(tmp_path, everything, {example.marks[0]: example.text})
    else:
        found = said(tmp_path, whole(example.text), LISTS)
    assert found == example.answer.rstrip("\n")


def test_the_readme_s_specs_load(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    specs = [e.text for e in examples(page) if e.kind == "yaml" and e.text.startswith("product:")]
    assert specs
    for text in specs:
        assert said(tmp_path, text, LISTS) == ""


def _models() -> list[type[BaseModel]]:
    parts = [
        value
        for value in (vars(models) | vars(rules)).values()
        if isinstance(value, type) and issubclass(value, models.Part)
    ]
    return [part for part in parts if part is not models.Part]


@pytest.mark.parametrize("model", _models(), ids=lambda m: m.__name__)
def test_every_field_is_on_the_page(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert f"`{field.alias or name}`" in PAGE, f"{model.__name__}.{name}"
        for kind in get_args(field.annotation) if name == "rule" else ():
            assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("model", _models(), ids=lambda m: m.__name__)
def test_defaults_are_what_the_page_says(model: type[BaseModel]) -> None:
    """Plain defaults stand in the second column of a table, as they would be written in YAML."""
    for name, field in model.model_fields.items():
        plain: Any = field.get_default()
        if not isinstance(plain, (str, bool, int)):
            continue
        written = '","' if plain == "," else str(plain).lower()
        rows = [
            line.split("|") for line in PAGE.splitlines() if line.startswith(f"| `{field.alias or name}` |")
        ]
        assert any(f"`{written}`" in row[2] for row in rows), f"{model.__name__}.{name}"
