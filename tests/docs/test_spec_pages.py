"""docs/reference/spec: examples load, wrong ones say what the page says, every field is described.

A YAML block that begins with `product:` is a whole spec; any other is laid over the smallest spec (the first
of index.md), section by section. A block with the title `wrong` is followed by the lines that `check` prints. A CSV
block is written beside the spec under the name in its title. Examples in other pages about specs are held to
the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tabularium.validations.release_spec import model as models
from tabularium.validations.release_spec import privacy as rules
from tabularium.validations.release_spec import publication as output_options
from tabularium.validations.release_spec import targets as wanted_margins
from tabularium.validations.release_spec.load import examine
from tabularium.validations.release_spec.problems import format_problems
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.validations.release_spec.spec_samples import block

ROOT = Path(__file__).parents[2]
SECTIONS = sorted((ROOT / "docs" / "reference" / "spec").glob("*.md"))
ELSEWHERE = [
    ROOT / "docs" / "how-to" / f"{name}.md"
    for name in (
        *("add-a-table", "make-a-column", "choose-a-mechanism"),
        *("plan-a-budget", "publish-in-other-formats", "publish-a-survey", "publish-hospital-episodes"),
        "connect-a-source",
    )
]
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in SECTIONS)
UNWRAPPED = re.sub(r"\n {2,}(?=\S)", " ", PAGE)
FENCE = re.compile(r"^```(\S+)(?: title=\"(.*)\")?\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    place: str
    kind: str
    marks: tuple[str, ...]
    text: str
    answer: str = ""  # the text block that follows


def examples(path: Path) -> list[Example]:
    page = path.read_text(encoding="utf-8")
    found = [
        Example(
            f"{path.stem}:{page.count(chr(10), 0, m.start()) + 1}",
            m[1],
            tuple((m[2] or "").split(", ")),
            m[3],
        )
        for m in FENCE.finditer(page)
    ]
    after = [*found, Example("", "", (), "")][1:]
    return [
        Example(e.place, e.kind, e.marks, e.text, n.text if n.kind == "text" else "")
        for e, n in zip(found, after, strict=True)
    ]


BLOCKS = [example for path in (*SECTIONS, *ELSEWHERE) for example in examples(path)]
SMALLEST = next(e.text for e in examples(SECTIONS[0].with_name("index.md")) if e.kind == "yaml")
LISTS = {e.marks[0]: e.text for e in BLOCKS if e.kind == "csv" and "wrong" not in e.marks}
GOOD = [e for e in BLOCKS if e.kind == "yaml" and "wrong" not in e.marks]
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


def test_the_pages_have_examples() -> None:
    assert len(SMALLEST.splitlines()) == 10
    assert len(GOOD) >= 10
    assert len(WRONG) >= 5


@pytest.mark.parametrize("example", GOOD, ids=lambda e: e.place)
def test_good_examples_load(tmp_path: Path, example: Example) -> None:
    assert said(tmp_path, whole(example.text), LISTS) == ""


def test_the_spec_with_everything_has_every_top_level_key() -> None:
    (text,) = [e.text for e in GOOD if e.place.startswith("index:") and "workspace:" in e.text]
    assert set(re.findall(r"^(\w+):", text, re.MULTILINE)) == {
        field.alias or name for name, field in models.SpecFile.model_fields.items()
    }


@pytest.mark.parametrize("example", WRONG, ids=lambda e: e.place)
def test_wrong_examples_say_what_the_page_says(tmp_path: Path, example: Example) -> None:
    if example.kind == "csv":
        everything = next(e.text for e in GOOD if "areas.csv" in e.text)
        found = said(tmp_path, everything, LISTS | {example.marks[0]: example.text})
    else:
        found = said(tmp_path, whole(example.text), LISTS)
    assert found == example.answer.rstrip("\n")


def test_the_readme_s_specs_load(tmp_path: Path) -> None:
    blocks = examples(ROOT / "README.md")
    specs = [e.text for e in blocks if e.kind == "yaml" and e.text.startswith("product:")]
    assert specs
    for text in specs:
        assert said(tmp_path, text, LISTS) == ""


def _models() -> list[type[BaseModel]]:
    parts = [
        value
        for value in (vars(models) | vars(rules) | vars(output_options) | vars(wanted_margins)).values()
        if isinstance(value, type) and issubclass(value, models.Part)
    ]
    return [part for part in parts if part is not models.Part]


@pytest.mark.parametrize("model", _models(), ids=lambda m: m.__name__)
def test_every_field_is_described(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        if field.exclude:  # what the program adds to a spec that was read
            continue
        assert f"`{field.alias or name}`" in PAGE, f"{model.__name__}.{name}"
        for kind in get_args(field.annotation) if name == "rule" else ():
            assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_has_its_row(name: str) -> None:
    assert f"| `{name}` | {FORMATS[name].summary} |\n" in PAGE


@pytest.mark.parametrize("model", _models(), ids=lambda m: m.__name__)
def test_defaults_are_what_the_pages_say(model: type[BaseModel]) -> None:
    """Plain defaults stand at the end of a field's line, as they would be written in YAML."""
    for name, field in model.model_fields.items():
        plain: Any = field.get_default()
        if not isinstance(plain, (str, bool, int)):
            continue
        marks = {",": '","', '"': "'\"'"}
        written = marks.get(plain, str(plain).lower() if isinstance(plain, bool) else str(plain))
        called = re.compile(rf"- \[?`(limits\.)?{field.alias or name}`(\]\(\S+\))?: ")
        lines = [line for line in UNWRAPPED.splitlines() if called.match(line)]
        ends = re.compile(
            rf"[Dd]efault: `{re.escape(written)}`[.,]|`{re.escape(written)}`[^;.]*\(the default"
        )
        assert any(map(ends.search, lines)), f"{model.__name__}.{name}"
