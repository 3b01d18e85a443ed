"""What a good spec becomes: shares, levels, domains, digests, options."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import ValidationError

from tabularium.validations.domains.domains import CategoryDomain, HierarchyDomain, NumberDomain, cut
from tabularium.validations.release_spec.kinds import PrivacyUnit, format_of
from tabularium.validations.release_spec.load import examine, load_spec
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.problems import SpecProblems
from tabularium.validations.release_spec.source import FileSource
from tests.validations.release_spec.spec_samples import AREAS, SPEC, TINY, block, changed, load, write_spec


def test_everything_is_filled_in(tmp_path: Path) -> None:
    spec = load(tmp_path, TINY).spec
    (table,) = spec.tables
    assert (table.share, table.levels, table.along, table.mechanism, table.parameters) == (
        1,
        {},
        None,
        "identity",
        {},
    )
    assert (spec.product, spec.dataset, spec.period) == ("p", "d", "2026")
    assert (spec.source.nulls, spec.source.delimiter, spec.source.engine) == (("",), ",", "duckdb")
    assert (spec.source.max_rejected, spec.source.file_format) == (0, "csv")
    assert (spec.privacy.unit, spec.privacy.max_contributions) == (PrivacyUnit(entity="record"), 1)
    assert (spec.privacy.relation, spec.privacy.budget) == ("add-remove", Fraction(1))
    assert spec.rules == ()
    assert (spec.postprocessing.consistency, spec.postprocessing.nonnegativity) == (True, True)
    assert spec.postprocessing.rounding is True
    assert (spec.publication.folder, spec.publication.formats) == ("releases", ("csv", "parquet"))
    assert (spec.publication.confidence, spec.publication.measurements.withhold) == (Fraction(9, 10), None)
    assert spec.workspace.keep is False


def test_shares_and_levels_as_written(tmp_path: Path) -> None:
    first, second = load(tmp_path).spec.tables
    assert (first.share, second.share) == (Fraction(2, 3), Fraction(1, 3))
    assert first.along == "area"
    assert list(first.levels.items()) == [
        ("nation", Fraction(1, 6)),
        ("region", Fraction(1, 3)),
        ("place", Fraction(1, 2)),
    ]
    assert (second.along, second.levels) == (None, {})


def test_levels_come_root_first_however_they_are_written(tmp_path: Path) -> None:
    text = changed('{nation: "1/6", region: "1/3", place: "1/2"}', '{place: "50%", nation: "50%"}')
    assert list(load(tmp_path, text).spec.tables[0].levels) == ["nation", "place"]


def test_equal_shares_and_the_leaf_level_when_nothing_is_said(tmp_path: Path) -> None:
    text = SPEC.replace('    share: "2/3"\n    levels: {nation: "1/6", region: "1/3", place: "1/2"}\n', "")
    text = text.replace('    share: "1/3"\n', "").replace(
        "rules:", "  - {name: third, dimensions: [age]}\nrules:"
    )
    tables = load(tmp_path, text).spec.tables
    assert [table.share for table in tables] == [Fraction(1, 3)] * 3
    assert tables[0].levels == {"place": 1}


def test_along_chooses_among_hierarchies(tmp_path: Path) -> None:
    text = changed("  age:", "  work: {hierarchy: areas.csv, levels: [a, b, c]}\n  age:")
    text = changed("[area, age, sex]", "[area, work]", text)
    loaded = load(
        tmp_path, changed('{nation: "1/6", region: "1/3", place: "1/2"}', "{c: 1}\n    along: work", text)
    )
    table = loaded.spec.tables[0]
    assert (table.along, table.levels) == ("work", {"c": 1})
    assert loaded.leaf_shape(table) == (3, 3)
    assert loaded.cells(table) == 9
    default = load(tmp_path, changed('    levels: {nation: "1/6", region: "1/3", place: "1/2"}\n', "", text))
    assert default.spec.tables[0].along == "area"


@pytest.mark.parametrize(
    ("privacy", "budget"),
    [
        ('{unit: record, budget: "1"}', Fraction(1)),
        ('{unit: record, budget: "1", relation: replace}', Fraction(1, 2)),
        ('{unit: {column: id}, budget: "1", max_contributions: 5}', Fraction(1, 5)),
        ('{unit: {column: id}, budget: "3/4", max_contributions: 5, relation: replace}', Fraction(3, 40)),
    ],
)
def test_the_budget_of_a_record(tmp_path: Path, privacy: str, budget: Fraction) -> None:
    spec = load(tmp_path, block("privacy", f"privacy: {privacy}")).spec
    assert spec.privacy.record_budget == budget
    assert isinstance(spec.privacy.record_budget, Fraction)
    assert spec.privacy.protects == ("id" if "column" in privacy else "record")


@pytest.mark.parametrize(
    ("unit", "read", "called", "shortest"),
    [
        ("record", ("record", None, None), "record", "record"),
        ("{entity: record}", ("record", None, None), "record", "record"),
        ("{entity: person}", ("person", None, None), "person", {"entity": "person"}),
        ("{column: HHID}", ("HHID", "HHID", None), "unit (HHID)", {"column": "HHID"}),
        ("{entity: HHID, column: HHID}", ("HHID", "HHID", None), "unit (HHID)", {"column": "HHID"}),
        (
            *("{entity: household, column: HHID, population: Arcadia}", ("household", "HHID", "Arcadia")),
            *("household", {"entity": "household", "column": "HHID", "population": "Arcadia"}),
        ),
    ],
)
def test_a_unit_is_an_entity_with_its_column(
    tmp_path: Path, unit: str, read: tuple[object, ...], called: str, shortest: object
) -> None:
    """What means the same is written, and so hashed, in one way."""
    loaded = load(tmp_path, block("privacy", f'privacy: {{unit: {unit}, max_contributions: 1, budget: "1"}}'))
    found = loaded.spec.privacy.unit
    assert (found.entity, found.column, found.population) == read
    assert (loaded.spec.privacy.protects, found.called) == (read[0], called)
    assert loaded.published_spec["privacy"]["unit"] == shortest


def test_domains(tmp_path: Path) -> None:
    domains = load(tmp_path).domains
    area, age, sex, status = (domains[name] for name in ("area", "age", "sex", "status"))
    assert isinstance(area, HierarchyDomain)
    assert area.node_codes == ("0", "N", "S", "N1", "N2", "S1")
    assert area.parents.tolist() == [-1, 0, 0, 1, 1, 2]
    assert area.depth.tolist() == [0, 1, 1, 2, 2, 2]
    assert (area.levels, area.codes) == (("nation", "region", "place"), ("N1", "N2", "S1"))
    assert area.labels == ("Northport", "Northfield", "Southbridge")
    assert isinstance(age, NumberDomain)
    assert age.edges == (0, 5, 18, 65, 100)
    assert age.labels == ("0-4", "5-17", "18-64", "65-99")
    assert isinstance(sex, CategoryDomain)
    assert (sex.codes, sex.labels, sex.nulls) == (("1", "2"), ("male", "female"), "reject")
    assert isinstance(status, CategoryDomain)
    assert (status.nulls, status.invalid, status.other) == ("other", "reject", "other")


@pytest.mark.parametrize(
    ("text", "edges", "labels"),
    [
        ("{from: 0, to: 3}", (0, 1, 2, 3, 4), ("0", "1", "2", "3")),
        ("{from: 1, to: 7, width: 3}", (1, 4, 7, 8), ("1-3", "4-6", "7")),
        ("{from: -2, to: 2, width: 2}", (-2, 0, 2, 3), ("-2 to -1", "0-1", "2")),
        ("{from: 5, to: 5}", (5, 6), ("5",)),
        ("{from: 0, to: 9, edges: []}", (0, 10), ("0-9",)),
        ("{from: 0, to: 9, edges: [9]}", (0, 9, 10), ("0-8", "9")),
        ("{from: 0, to: 9, edges: [5], labels: [low, high]}", (0, 5, 10), ("low", "high")),
        ("{from: 0, to: 9, width: 5, labels: [1, 2]}", (0, 5, 10), ("1", "2")),
    ],
)
def test_bins_by_hand(tmp_path: Path, text: str, edges: tuple[int, ...], labels: tuple[str, ...]) -> None:
    spec = TINY.replace("{categories: [x, y]}", f"{{integer: {text}}}")
    domain = load(tmp_path, spec).domains["a"]
    assert isinstance(domain, NumberDomain)
    assert (domain.edges, domain.labels, domain.size) == (edges, labels, len(labels))
    other = load(tmp_path, spec.replace("}}", "}, invalid: other, other: unknown}", 1)).domains["a"]
    assert (other.labels, other.size) == ((*labels, "unknown"), len(labels) + 1)


@pytest.mark.parametrize(
    ("text", "codes", "labels"),
    [
        ("[b, a]", ("b", "a"), ("b", "a")),
        ("[1, 2]", ("1", "2"), ("1", "2")),
        ("{b: second, 1: first}", ("b", "1"), ("second", "first")),
        ("[{code: b, label: second}, {code: 1, label: 1}, c]", ("b", "1", "c"), ("second", "1", "c")),
    ],
)
def test_categories_in_the_order_of_the_file(
    tmp_path: Path, text: str, codes: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    domain = load(tmp_path, TINY.replace("[x, y]", text)).domains["a"]
    assert (domain.codes, domain.labels) == (codes, labels)


def test_shapes_and_cells(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    first, second = loaded.spec.tables
    assert loaded.leaf_shape(first) == (3, 4, 2)
    assert loaded.level_cells(first) == {"nation": 8, "region": 16, "place": 24}
    assert loaded.cells(first) == 48
    assert (loaded.leaf_shape(second), loaded.level_cells(second), loaded.cells(second)) == (
        (2, 3),
        {"": 6},
        6,
    )


def test_a_ragged_tree_counts_every_leaf_at_every_level_below_it(tmp_path: Path) -> None:
    """Roots R and Q; Q is a leaf, R has a leaf A and an inner node B with two leaves."""
    ragged = "code,label,parent\nR,,\nQ,,\nA,,R\nB,,R\nB1,,B\nB2,,B\n"
    text = block(
        "tables",
        "tables:\n  - name: t\n    dimensions: [area]\n    levels: {nation: 20%, region: 40%, place: 40%}",
    )
    loaded = load(tmp_path, text, {"areas.csv": ragged})
    (table,) = loaded.spec.tables
    assert loaded.domains["area"].codes == ("Q", "A", "B1", "B2")
    assert loaded.level_cells(table) == {"nation": 2, "region": 3, "place": 4}
    area = loaded.domains["area"]
    assert isinstance(area, HierarchyDomain)
    assert {level: len(cut(area, level)) for level in area.levels} == loaded.level_cells(table)
    assert loaded.cells(table) == 9


def test_the_spec_is_frozen_and_closed(tmp_path: Path) -> None:
    spec = load(tmp_path).spec
    with pytest.raises(ValidationError):
        spec.product = "other"
    with pytest.raises(ValidationError):
        spec.tables[0].share = Fraction(1)
    with pytest.raises(ValidationError):
        ReleaseSpec.model_validate({**spec.model_dump(), "more": 1})


def test_no_data_is_opened(tmp_path: Path) -> None:
    """The source neither exists nor can exist, and nothing appears in the folder."""
    path = write_spec(tmp_path, block("source", "source: {path: areas.csv/nowhere/*.parquet}"))
    before = sorted(tmp_path.iterdir())
    assert load_spec(path).source_uri == str(tmp_path / "areas.csv/nowhere/*.parquet")
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)  # opening it would wait for ever
    assert load_spec(path, source=str(pipe)).source_uri == str(pipe)
    pipe.unlink()
    assert sorted(tmp_path.iterdir()) == before


def test_paths_are_relative_to_the_spec_and_the_option_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "specs", tmp_path / "elsewhere"
    path = write_spec(folder)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for spelling in (path, str(path), Path("../specs/spec.yaml"), "../specs/../specs/spec.yaml"):
        loaded = load_spec(spelling)
        assert (loaded.path, loaded.folder) == (path, folder)
        assert loaded.source_uri == str(folder / "nowhere/persons.csv")
    assert load_spec(path, source="x/*.parquet").source_uri == str(elsewhere / "x/*.parquet")


def test_options_replace_source_and_period(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    loaded = load_spec(path, source="/data/p.parquet", period="2027")
    assert (loaded.spec.period, loaded.source_uri) == ("2027", "/data/p.parquet")
    assert loaded.spec.source.max_rejected == Fraction(1, 100)
    assert loaded.spec.source.file_format == "parquet"
    assert load_spec(path, source="/data/p.parquet").digest == load_spec(path).digest
    assert load_spec(path, period="2027").digest != load_spec(path).digest


def test_options_make_up_for_what_the_spec_lacks(tmp_path: Path) -> None:
    path = write_spec(tmp_path, block("source", "", changed('period: "2026"\n', "")))
    assert [p.field for p in examine(path).problems] == ["period", "source"]
    assert load_spec(path, source="p.csv", period="2026").spec.period == "2026"


def test_options_between_files_and_databases(tmp_path: Path) -> None:
    files = write_spec(tmp_path / "files")
    (problem,) = examine(files, source="sqlite:///people.db").problems
    assert (problem.field, problem.line) == ("--source", None)
    assert "table" in problem.hint
    base = write_spec(tmp_path / "base", block("source", 'source: {url: "sqlite:///a.db", table: people}'))
    loaded = load_spec(base)
    assert (loaded.spec.source.engine, loaded.source_uri) == ("database", "sqlite:///a.db")
    assert load_spec(base, source="sqlite:///b.db").source_uri == "sqlite:///b.db"
    moved = load_spec(base, source="/data/p.csv")
    assert moved.source_uri == "/data/p.csv"
    assert isinstance(moved.spec.source, FileSource)


@pytest.mark.parametrize("period", ["", "../x", "a b", "x" * 64, "2026\n"])
def test_a_period_on_the_command_line_is_checked(tmp_path: Path, period: str) -> None:
    (problem,) = examine(write_spec(tmp_path), period=period).problems
    assert (problem.field, problem.line) == ("--period", None)


def test_code_lists_are_named_by_their_digest(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    import hashlib

    assert loaded.public_files == {"areas.csv": hashlib.sha256(AREAS.encode()).hexdigest()}


def test_rules_have_stable_names(tmp_path: Path) -> None:
    rules = """rules:
  - {rule: row_count, max: 5}
  - {rule: nulls, column: sex, at_most: 0}
  - {rule: invalid, column: sex, at_most: "1/3"}
  - {rule: range, column: age, min: 0, severity: warn}
  - {rule: unique, columns: [household, person]}
"""
    loaded = load(tmp_path, block("rules", rules))
    names = ["row_count", "nulls(sex)", "invalid(sex)", "range(age)", "unique(household, person)"]
    assert [rule.name for rule in loaded.spec.rules] == names
    assert [rule.severity for rule in loaded.spec.rules] == ["stop", "stop", "stop", "warn", "stop"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *[
            ("a.csv", "csv"),
            ("a.csv.gz", "csv"),
            ("A.CSV", "csv"),
            ("a.tsv", "csv"),
            ("b/*.parquet", "parquet"),
        ],
        *[("a.pq", "parquet"), ("folder", None), ("folder/", None), ("a.gz", None), ("v1.2/", None)],
    ],
)
def test_formats_told_from_endings(path: str, kind: str | None) -> None:
    assert format_of(path) == kind


def test_a_folder_with_a_point_in_its_name(tmp_path: Path) -> None:
    assert load(tmp_path, SPEC.replace("nowhere/persons.csv", "../data")).spec.source.file_format is None
    with pytest.raises(SpecProblems, match="add format"):
        load(tmp_path, SPEC.replace("nowhere/persons.csv", "data/persons.2026"))
    loaded = load(tmp_path, SPEC.replace("nowhere/persons.csv", "data/persons.2026, format: parquet"))
    assert loaded.spec.source.file_format == "parquet"
