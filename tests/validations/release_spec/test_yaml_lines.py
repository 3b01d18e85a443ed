"""The strict YAML: lines, traps, hostile files."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.validations.release_spec.yaml_lines import (
    DEPTH_LIMIT,
    NODE_LIMIT,
    SIZE_LIMIT,
    Document,
    parse_yaml,
    read_yaml,
)


def parse(text: str) -> Document:
    return parse_yaml(text, Document("t.yaml"))


def test_values_and_lines() -> None:
    document = parse('a: 1\nb:\n  - x\n  - {c: true, d: "no"}\n# comment\ne: |\n  two\n  lines\n')
    assert document.problems == []
    assert document.data == {"a": 1, "b": ["x", {"c": True, "d": "no"}], "e": "two\nlines\n"}
    lines = document.lines
    assert (lines["a",], lines["b",], lines["b", 0], lines["b", 1, "d"], lines["e",]) == (1, 2, 3, 4, 6)
    assert document.line(("b", 1, "missing", 7)) == 4
    assert document.raw["b", 1, "c"] == "true"


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: no\r\n")
    document = read_yaml(path)
    assert document.data == {"a": 1, "b": "no"}
    assert [(p.line, p.field, p.file) for p in document.problems] == [(2, "b", "w.yaml")]


@pytest.mark.parametrize(
    "text",
    [
        *[
            "no",
            "No",
            "NO",
            "yes",
            "on",
            "Off",
            "010",
            "08",
            "0o17",
            "0x1F",
            "0b1",
            "1_000",
            "1:30",
            "12:30:45",
            "+5",
            "-0",
            "null",
            "Null",
            "~",
            "=",
            "._",
            "-._1",
        ],
        *["2019-01-01", "2019-01-01 10:00:00", "2019-1-1T00:00:00Z", "1" * 31],
    ],
)
def test_scalars_that_readers_disagree_about_are_refused(text: str) -> None:
    document = parse(f"a: {text}\n")
    assert len(document.problems) == 1
    problem = document.problems[0]
    assert problem.line == 1
    assert problem.field == "a"
    assert problem.hint.startswith(f'write "{text}" in quotes')
    assert document.is_tainted(("a",))
    quoted = parse(f'a: "{text}"\n')
    assert quoted.problems == []
    assert quoted.data == {"a": text}


@pytest.mark.parametrize(
    "text", ["N", "y", "n", "Y", "a-b", "1a", "0-4", "01-01301", "1/3", "10%", "2019-Q1", "12:5x", "-"]
)
def test_scalars_that_mean_the_same_everywhere_are_text(text: str) -> None:
    document = parse(f"a: {json.dumps(text) if text == '-' else text}\n")
    assert document.problems == []
    assert document.data == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("7", 7), ("-12", -12), ("true", True), ("False", False)]
)
def test_plain_values(text: str, value: object) -> None:
    data = parse(f"a: {text}\n").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


@pytest.mark.parametrize(
    "text", ["0.1", "1.", ".5", "-0.5", "1e-3", "1E5", "1.5e3", ".inf", "-.inf", ".nan", "1_0.5"]
)
def test_floats_are_kept_as_floats_for_the_models_to_refuse(text: str) -> None:
    document = parse(f"a: {text}\n")
    assert document.problems == []
    assert isinstance(document.data["a"], float)
    assert document.raw["a",] == text


@pytest.mark.parametrize("key", ["no", "true", "1.5", "null", "~", "010", "2019-01-01", "1e3"])
def test_keys_that_are_not_read_as_text(key: str) -> None:
    document = parse(f"a: {{{key}: x}}\n")
    assert [(p.field, p.hint) for p in document.problems] == [(f"a.{key}", f'write "{key}" in quotes')]
    assert parse(f'a: {{"{key}": x}}\n').data == {"a": {key: "x"}}


def test_whole_numbers_are_good_keys() -> None:
    assert parse("a: {1: x, -2: y}\n").data == {"a": {"1": "x", "-2": "y"}}


def test_a_key_twice_names_both_lines_and_keeps_the_first() -> None:
    document = parse("a: 1\nb:\n  c: 1\n  d: {e: 1}\n  c: [1, {f: no}]\na: 2\n")
    assert document.data == {"a": 1, "b": {"c": 1, "d": {"e": 1}}}
    assert [(p.line, p.field, p.what) for p in document.problems] == [
        (5, "b.c", "the key is here twice, first at line 3"),
        (6, "a", "the key is here twice, first at line 1"),
    ]


def test_a_key_without_a_value() -> None:
    document = parse("a:\nb: [x, ]\nc: {d: }\n")
    assert document.data == {"b": ["x"], "c": {}}
    assert [(p.line, p.field, p.what) for p in document.problems] == [
        (1, "a", "there is no value"),
        (3, "c.d", "there is no value"),
    ]


def test_a_label_that_a_comma_cuts_is_to_be_quoted() -> None:
    (problem,) = parse("labels: {4: Grade 9 to 12, no diploma, 5: High school}\n").problems
    assert (problem.what, problem.hint) == (
        "there is no value",
        "quote the label: a comma between { and } ends it",
    )
    assert not parse('labels: {4: "Grade 9 to 12, no diploma", 5: High school}\n').problems


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: &x 1\nb: *x\n", 1, "anchor"),
        ("a: *x\n", 1, "alias"),
        ("a: 1\n<<: {b: 2}\n", 2, "merge key"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("a: !!str no\n", 1, "tag"),
        ("a: 1\n---\nb: 2\n", 3, "second document"),
        ("? [x]\n: 1\n", 1, "key"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("a: 'x\n", 2, "not YAML"),
        ("a: b: c\n", 1, "not YAML"),
        ("a: 1\n\tb: 2\n", 2, "not YAML"),
        ("a: 1\nb: \x00\n", 2, "control character"),
        ("a: 1\nb: \x1b[31m\n", 2, "control character"),
    ],
)
def test_what_a_spec_does_not_need_is_refused(text: str, line: int, says: str) -> None:
    document = parse(text)
    assert document.data is None
    assert [p.line for p in document.problems] == [line]
    assert says in document.problems[0].what
    assert document.problems[0].hint


def test_billion_laughs_stop_at_the_first_anchor() -> None:
    bomb = "a: &a [x, x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    assert "anchor" in parse(bomb).problems[0].what


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_stops(opening: str) -> None:
    document = parse(opening * 100_000)
    assert document.data is None
    assert len(document.problems) == 1
    shallow = parse("[" * (DEPTH_LIMIT - 1) + "]" * (DEPTH_LIMIT - 1))
    assert shallow.problems == []


def test_many_values_stop() -> None:
    assert "too many values" in parse("a: [" + "1," * NODE_LIMIT + "]").problems[0].what


def test_files_that_are_no_specs(tmp_path: Path) -> None:
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (SIZE_LIMIT + 1))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: \xe9\n")
    said = {path.name: read_yaml(path).problems for path in (big, latin, tmp_path, tmp_path / "none.yaml")}
    assert [len(problems) for problems in said.values()] == [1, 1, 1, 1]
    assert "larger than 1 MiB" in said["big.yaml"][0].what
    assert said["latin.yaml"][0].line == 2
    assert "UTF-8" in said["latin.yaml"][0].what
    assert "folder" in said[tmp_path.name][0].what
    assert "no such file" in said["none.yaml"][0].what


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=30))
def test_text_in_quotes_is_that_text(text: str) -> None:
    document = parse(
        f"a: {json.dumps(text, ensure_ascii=False)}\n".replace("\u2028", "x").replace("\u2029", "x")
    )
    if not document.problems:
        assert document.data == {"a": text.replace("\u2028", "x").replace("\u2029", "x")}
    else:  # a noncharacter: refused, never misread
        assert "control character" in document.problems[0].what


@settings(max_examples=300)
@given(st.text(string.ascii_letters + string.digits + "_.:+-~=", min_size=1, max_size=8))
def test_an_unquoted_scalar_is_its_own_text_or_refused_or_a_plain_value(text: str) -> None:
    """Whatever we accept as text, PyYAML's own resolver and YAML 1.2 read as text too."""
    import yaml

    document = parse(f"a: {text}\n")
    if document.problems or not isinstance(document.data, dict):
        return
    value = document.data["a"]
    theirs = yaml.safe_load(f"a: {text}\n")["a"]
    if isinstance(value, float):
        return  # refused by the models; YAML 1.1 and 1.2 differ over 1e3
    assert value == theirs
    assert type(value) is type(theirs)


@settings(max_examples=300)
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_gives_values_or_problems_and_never_an_exception(text: str) -> None:
    document = parse(text)
    for problem in document.problems:
        assert "\n" not in str(problem)
        assert str(problem).isprintable()


def test_braces_without_quotes_are_told_of() -> None:
    (problem,) = parse_yaml("source: {path: people-{period}.csv}\n", Document("t.yaml")).problems
    assert problem.hint == "put a value that holds { and } between quotes"
