"""Every mistake: its line, its field, what is wrong, how to mend it; all at once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import SpecError
from tabularium.validations.release_spec.load import examine, load_spec
from tabularium.validations.release_spec.problems import (
    Problem,
    SpecProblems,
    field_name,
    format_problems,
    nearest,
    shown,
)
from tests.validations.release_spec.spec_samples import AREAS, SPEC, block, changed, problems_of, write_spec


def test_the_sample_is_in_order(tmp_path: Path) -> None:
    assert problems_of(tmp_path, SPEC) == ()


# (old, new): one change to the sample; line and field: where; what and mend: parts of what is said.
MISTAKES = [
    # single values
    ("product: persons", "product: Persons", 1, "product", "`Persons`", "small letters"),
    ("dataset: census", "dataset: [census]", 2, "dataset", "single text", "one word"),
    ('period: "2026"', "period: 2026.10", 3, "period", "not read as text", 'write period: "2026.10" in quotes'),
    ('period: "2026"', "period: 2026-01-01", 3, "period", "as a date", 'write "2026-01-01" in quotes'),
    ('period: "2026"', 'period: "../2026"', 3, "period", "`../2026`", "digits"),
    ('period: "2026"', "", None, "period", "missing", "add `period:`"),
    # budget
    ('budget: "1"', "budget: 0.1", 5, "privacy.budget", "YAML float", 'write budget: "0.1" in quotes'),
    ('budget: "1"', "budget: 1e-3", 5, "privacy.budget", "YAML float", 'write budget: "1e-3" in quotes'),
    ('budget: "1"', 'budget: "1e-3"', 5, "privacy.budget", "not an exact number", "decimal or a fraction"),
    ('budget: "1"', "budget: 0", 5, "privacy.budget", "above zero", 'write the budget, for instance "1"'),
    ('budget: "1"', 'budget: "-1"', 5, "privacy.budget", "sign", "without + or -"),
    ('budget: "1"', "budget: -1", 5, "privacy.budget", "sign", "without + or -"),
    ('budget: "1"', 'budget: "10%"', 5, "privacy.budget", "percentage", "for instance"),
    ('budget: "1"', f'budget: "0.{"3" * 50}"', 5, "privacy.budget", "too long", "twelve digits"),
    ('budget: "1"', 'budget: "1/9999999999999"', 5, "privacy.budget", "digits", "shorter"),
    ('budget: "1"', "budget: 010", 5, "privacy.budget", "another number by some", 'write "010" in quotes'),
    ('budget: "1"', "budget: yes", 5, "privacy.budget", "true or false", 'write "yes" in quotes'),
    ('budget: "1"', "budget: ", 5, "privacy.budget", "no value", "write one"),
    # privacy
    ("unit: record", "unit: person_id", 5, "privacy.unit", "neither", ", column: person_id}"),
    ("unit: record", "unit: {columns: p}", 5, "privacy.unit", "neither", "{entity: person, column: person_id}"),
    ("unit: record", "unit: {population: p}", 5, "privacy.unit", "neither", "unit: record, or unit: {entity"),
    ("unit: record", "unit: {entity: p, colunm: q}", 5, "privacy.unit.colunm", "no key", "mean `column`?"),
    ("unit: record", 'unit: {entity: ""}', 5, "privacy.unit.entity", "is empty", "write a text"),
    ("unit: record", "unit: {entity: record, column: p}", 5, "privacy.unit", "no column", "person, column: p}"),
    ("unit: record", "unit: {entity: p, population: [q]}", 5, "privacy.unit.population", "single text", "one word"),
    ("unit: record", 'unit: {column: "a\\nb"}', 5, "privacy.unit.column", "a control character", "remove it"),
    ("unit: record", "unit: {entity: p}, max_contributions: 3", 5, "privacy.max_contributions", "one", "unit:"),
    ("unit: record", "unit: record, max_contributions: 0", 5, "privacy.max_contributions", "1 or more", "from 1"),
    ("add-remove", "add_remove", 5, "privacy.relation", "`add_remove`", "add-remove or replace"),
    # keys
    ("product:", "prodct:", 1, "prodct", "no key `prodct`", "did you mean `product`?"),
    ("relation:", "relatoin:", 5, "privacy.relatoin", "no key", "did you mean `relation`?"),
    ("edges:", "egdes:", 8, "columns.age.integer.egdes", "no key", "did you mean `edges`?"),
    ("levels: {nation", "level: {nation", 15, "tables[0].level", "no key", "did you mean `levels`?"),
    ("min: 10", "minimum: 10", 20, "rules[0].minimum", "no key", "did you mean `min`?"),
    ("min: 10", "floor: 10", 20, "rules[0].floor", "no key", "known keys: `severity`, `rule`, `min`"),
    ("dataset: census", "dataset: census\ndataset: x", 3, "dataset", "twice, first at line 2", "keep one"),
    # source
    ("path: nowhere/persons.csv", "format: csv", 4, "source", "neither a path nor a url", "add path"),
    ("path: nowhere/persons.csv", "path: a.csv, url: x://y", 4, "source.url", "has no `url`", "keep path or url"),
    ("path: nowhere/persons.csv", "path: https://a/b.csv", 4, "source.path", "is a URL", "write a path"),
    ("path: nowhere/persons.csv", "path: persons.sas7bdat", 4, "source.path", "ending", "add format"),
    ("path: nowhere/persons.csv", "path: a.csv, table: t", 4, "source.table", "has no `table`", "write url"),
    ("path: nowhere/persons.csv", "path: a.csv, engine: database", 4, "source.engine", "duckdb", "duckdb"),
    ("path: nowhere/persons.csv", "path: a.csv, format: cvs", 4, "source.format", "`cvs`", "csv or parquet"),
    ("path: nowhere/persons.csv", 'path: a.csv, delimiter: ";;"', 4, "source.delimiter", "one char", '";"'),
    ('max_rejected: "1%"', 'max_rejected: "1"', 4, "source.max_rejected", "neither a count", '"1%"'),
    ('max_rejected: "1%"', "max_rejected: 0.01", 4, "source.max_rejected", "YAML float", '"0.01" in quotes'),
    ('nulls: [""]', "nulls: [NA, null]", 4, "source.nulls[1]", "no value", 'write "null" in quotes'),
    ('nulls: [""]', "nulls: NA", 4, "source.nulls", "must be a list", "write nulls: [a, b]"),
    ('nulls: [""]', 'nulls: ["", "2"]', 9, "columns.sex.categories", "the code `2` is null", 'other: "2"'),
    ('nulls: [""]', 'nulls: ["", N1]', 7, "columns.area.hierarchy", "the code `N1` is null", "source.nulls"),
    # columns
    ("{hierarchy: areas.csv, levels: [nation, region, place]}", "{}", 7, "columns.area", "no domain", "add"),
    ("hierarchy: areas.csv", "hierarchy: areas.csv, categories: [a]", 7, "columns.area", "has `categories` and", "one"),
    ("hierarchy: areas.csv", "hierarchy: ares.csv", 7, "columns.area.hierarchy", "no code list", "relative"),
    ("[nation, region, place]", "[region, place]", 7, "columns.area.levels", "names 2 levels, and the code list has 3", "root first"),
    ("[nation, region, place]", "[nation, region, region]", 7, "columns.area.levels", "twice", "own name"),
    (", levels: [nation, region, place]", "", 7, "columns.area.levels", "`levels` is missing", "root first"),
    ("{from: 0, to: 99,", "{from: 100, to: 99,", 8, "columns.age.integer.from", "above `to`", "smallest"),
    ("[5, 18, 65]", "[5, 65, 18]", 8, "columns.age.integer.edges[2]", "not above", "ascending"),
    ("[5, 18, 65]", "[5, 18, 18]", 8, "columns.age.integer.edges[2]", "not above", "ascending"),
    ("[5, 18, 65]", "[0, 18, 65]", 8, "columns.age.integer.edges[0]", "outside", "above `from`"),
    ("[5, 18, 65]", "[5, 18, 100]", 8, "columns.age.integer.edges[2]", "outside", "at most `to`"),
    ("edges: [5, 18, 65]", "edges: [5], width: 5", 8, "columns.age.integer.width", "edges too", "keep"),
    ("edges: [5, 18, 65]", "width: 0", 8, "columns.age.integer.width", "above zero", "above zero"),
    ("edges: [5, 18, 65]", "width: wide", 8, "columns.age.integer.width", "whole number", "digits"),
    ("edges: [5, 18, 65]", "edges: [.inf]", 8, "columns.age.integer.edges[0]", "whole number", "digits"),
    ("edges: [5, 18, 65]", "edges: [0.12345678901234]", 8, "columns.age.integer", "15 digits", "fewer"),
    ("edges: [5, 18, 65]", "width: 0.5, floor: true", 8, "columns.age.integer.floor", "decimals", "remove"),
    ("edges: [5, 18, 65]", "edges: [5], labels: [a]", 8, "columns.age.integer.labels", "1 labels for 2 bins", "one label"),
    ("edges: [5, 18, 65]", "edges: [5], labels: [a, a]", 8, "columns.age.integer.labels", "twice", "own label"),
    ("edges: [5, 18, 65]", 'to: "99"', 8, "columns.age.integer.to", "twice", "keep one"),
    ("to: 99, edges: [5, 18, 65]", "to: 999999999", 8, "columns.age.integer", "1000000000 bins", "width"),
    ('"1": male', "01: male", 9, "columns.sex.categories.01", "is read as a number", 'write "01" in quotes'),
    ('{"1": male, "2": female}', "[1, 1]", 9, "columns.sex.categories", "a code twice", "remove the second 1"),
    ('{"1": male, "2": female}', "[a, 1.5]", 9, "columns.sex.categories", "not read as text", "in quotes"),
    ('{"1": male, "2": female}', "[se, no]", 9, "columns.sex.categories[1]", "true or false", 'write "no" in quotes'),
    ('{"1": male, "2": female}', "[]", 9, "columns.sex.categories", "empty", "at least one"),
    ('{"1": male, "2": female}', '["1 "]', 9, "columns.sex.categories.1 ", "spaces", "remove"),
    ('{"1": male, "2": female}', "male", 9, "columns.sex.categories", "or a code list", "sexes.csv"),
    ('{"1": male, "2": female}', "sexes.csv", 9, "columns.sex.categories", "no code list `sexes.csv`", "relative"),
    ('{"1": male, "2": female}', "areas.csv", 9, "columns.sex.categories", "`areas.csv` has parents", "hierarchy"),
    ("sex: {cat", "Age: {categories: [x]}\n  sex: {cat", 9, "columns.Age", "capital letters", "keep the one"),
    ("other: other}", "other: othr}", 10, "columns.status.other", "`othr` is not one", "did you mean `other`?"),
    (", other: other}", "}", 10, "columns.status.nulls", "not named", "one of the codes"),
    ("nulls: other, ", "", 10, "columns.status.other", "nothing goes there", "add nulls: other"),
    ("nulls: other, ", "nulls: drop, ", 10, "columns.status.nulls", "`drop`", "reject or other"),
    ("[nation, region, place]}", "[nation, region, place], nulls: other, other: N}", 7, "columns.area.other", "not a leaf", "no children"),
    ("[5, 18, 65]}}", '[5, 18, 65]}, nulls: other, other: "5-17"}', 8, "columns.age.other", "label of a bin", "another"),
    # tables
    ("name: sex_status", "name: area_age", 16, "tables[1].name", "table 1 has this name too", "own name"),
    ("name: sex_status", "name: Sex-Status", 16, "tables[1].name", "`Sex-Status`", "underscores"),
    ("dimensions: [sex, status]", "dimensions: [sex, stats]", 17, "tables[1].dimensions[1]", "no column `stats`", "did you mean `status`?"),
    ("dimensions: [sex, status]", "dimensions: [sex, sex]", 17, "tables[1].dimensions[1]", "here twice", "once"),
    ("dimensions: [sex, status]", "dimensions: []", 17, "tables[1].dimensions", "empty", "at least one"),
    ("dimensions: [sex, status]", "dimensions: sex", 17, "tables[1].dimensions", "must be a list", "[a, b]"),
    ('share: "1/3"', 'share: "1/4"', 18, "tables[1].share", "add to 11/12", "exactly 1"),
    ('share: "1/3"', 'share: "0.3333"', 18, "tables[1].share", "add to 29999/30000", "exactly 1"),
    ('share: "1/3"', "share: 0.3333", 18, "tables[1].share", "YAML float", 'write share: "0.3333" in quotes'),
    ('share: "1/3"', 'share: "0"', 18, "tables[1].share", "above zero", "share"),
    ('    share: "1/3"\n', "", 16, "tables[1]", "`share` is missing", "every table"),
    ('place: "1/2"}', 'place: "1/3"}', 15, "tables[0].levels", "add to 5/6", "exactly 1"),
    ("place: ", "plce: ", 15, "tables[0].levels.plce", "no level `plce`", "did you mean `place`?"),
    ('levels: {nation: "1/6", region: "1/3", place: "1/2"}', "levels: {}", 15, "tables[0].levels", "empty", "leaf level"),
    ('share: "2/3"', 'share: "2/3"\n    along: sex', 15, "tables[0].along", "not a hierarchy", "`area`"),
    ('share: "2/3"', 'share: "2/3"\n    along: are', 15, "tables[0].along", "not a dimension", "did you mean `area`?"),
    ('share: "1/3"', 'share: "1/3"\n    levels: {a: 1}', 19, "tables[1].levels", "no dimension", "remove levels"),
    ('share: "1/3"', 'share: "1/3"\n    mechanism: identiti', 19, "tables[1].mechanism", "no mechanism", "did you mean `identity`?"),
    ('share: "1/3"', 'share: "1/3"\n    parameters: {colour: red}', 19, "tables[1].parameters.colour", "no parameter", ""),
    ('share: "1/3"', 'share: "1/3"\n    parameters: {x: 0.5}', 19, "tables[1].parameters.x", "YAML float", 'x: "0.5"'),
    ('share: "1/3"', 'share: "1/3"\n    mechanism: gaussian', 19, "tables[1].mechanism", "pure", "another mechanism"),
    # rules
    ("column: status", "column: stats", 21, "rules[1].column", "no column `stats`", "did you mean `status`?"),
    ('at_most: "5%"', "at_most: 5", 21, "rules[1].at_most", "at most 100%", '"5%"'),
    ("rule: nulls", "rule: null", 21, "rules[1].rule", "no value", 'write "null" in quotes'),
    ("rule: nulls", "rule: nul", 21, "rules[1]", "no rule `nul`", "did you mean `nulls`?"),
    ("rule: nulls", "rule: zzz", 21, "rules[1]", "no rule `zzz`", "rules: `row_count`, `nulls`"),
    ("rule: nulls, ", "", 21, "rules[1]", "`rule` is missing", "add `rule:`"),
    ('min: 10, change_from_last: "20%"', "severity: warn", 20, "rules[0]", "no bound", "change_from_last"),
    ('from_last: "20%"', "from_last: 20", 20, "rules[0].change_from_last", "a change of 2000%", 'write "20%"'),
    ("min: 10", "min: 10, max: 9", 20, "rules[0].min", "above `max`", "exchange"),
    ("min: 10", "severity: error", 20, "rules[0].severity", "`error`", "stop or warn"),
    ("rules:", "rules:\n  - {rule: range, column: sex, min: 1}", 20, "rules[0].column", "not an integer", "invalid"),
    ("rules:", "rules:\n  - {rule: range, column: age}", 20, "rules[0]", "no bound", "min or max"),
    ("rules:", "rules:\n  - {rule: row_count, max: 5}", 21, "rules[1]", "rule 1 is `row_count` too", "keep one"),
    ("rules:", "rules:\n  - {rule: unique, columns: []}", 20, "rules[0].columns", "empty", "at least one"),
    ("rules:", "rules:\n  - {rule: unique, columns: [a, a]}", 20, "rules[0].columns", "twice", "once"),
    ("rules:", "rules:\n  - {rule: unique, column: a}", 20, "rules[0].column", "no key", "did you mean `columns`?"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "field", "what", "hint"), MISTAKES, ids=range(len(MISTAKES)))
def test_one_mistake(
    tmp_path: Path, old: str, new: str, line: int | None, field: str, what: str, hint: str
) -> None:
    found = problems_of(tmp_path, changed(old, new))
    said = [p for p in found if p.field == field and what in p.what]
    assert said, format_problems(found)
    assert said[0].file == "spec.yaml"
    assert line is None or said[0].line == line
    assert hint in said[0].hint


@pytest.mark.parametrize(("old", "new", "line", "field", "what", "hint"), MISTAKES, ids=range(len(MISTAKES)))
def test_one_mistake_is_said_once(
    tmp_path: Path, old: str, new: str, line: int | None, field: str, what: str, hint: str
) -> None:
    """One careless line does not bring a cascade: at most one more problem follows from it."""
    found = problems_of(tmp_path, changed(old, new))
    assert 1 <= len(found) <= 2, format_problems(found)


@pytest.mark.parametrize(
    ("key", "text", "field", "what"),
    [
        ("postprocessing", "postprocessing: {consistency: 1}", "postprocessing.consistency", "true or false"),
        ("postprocessing", "postprocessing: {rounding: no}", "postprocessing.rounding", "true or false"),
        ("postprocessing", "postprocessing: true", "postprocessing", "`key: value`"),
        ("publication", "publication: {formats: []}", "publication.formats", "empty"),
        ("publication", "publication: {formats: [csv, csv]}", "publication.formats", "twice"),
        ("publication", "publication: {formats: [csv, xls]}", "publication.formats[1]", "`xls`"),
        ("publication", "publication: {formats: [xlsx]}", "publication.formats", "neither csv nor parquet"),
        ("publication", 'publication: {confidence: "1"}', "publication.confidence", "between zero and one"),
        ("publication", "publication: {confidence: 0.9}", "publication.confidence", "YAML float"),
        ("publication", "publication: {measurements: withhold}", "publication.measurements", "neither"),
        (
            "publication",
            "publication: {measurements: {withhold: }}",
            "publication.measurements.withhold",
            "no value",
        ),
        ("workspace", "workspace: {keep: maybe}", "workspace.keep", "true or false"),
        ("columns", "columns: {}", "columns", "empty"),
        ("columns", "columns: [a]", "columns", "`key: value`"),
        ("tables", "tables: []", "tables", "empty"),
        ("tables", "tables: {name: x}", "tables", "must be a list"),
        ("tables", "tables: [x]", "tables[0]", "`key: value`"),
        ("rules", "rules: [nulls]", "rules[0]", "`key: value`"),
        ("privacy", "privacy: record", "privacy", "`key: value`"),
    ],
)
def test_mistakes_in_a_block(tmp_path: Path, key: str, text: str, field: str, what: str) -> None:
    found = problems_of(tmp_path, block(key, text))
    said = [p for p in found if p.field == field]
    assert said, format_problems(found)
    assert what in said[0].what
    assert said[0].line is not None
    assert said[0].hint


def test_a_table_with_more_cells_than_can_be_counted(tmp_path: Path) -> None:
    def spec(high: int) -> str:
        return block(
            "tables",
            "tables:\n  - {name: big, dimensions: [sex, age, income]}",
            changed("  sex:", f"  income: {{integer: {{from: 1, to: {high}}}}}\n  sex:").replace(
                "edges: [5, 18, 65]", "width: 1"
            ),
        ).replace("- {rule: nulls, column: status", "- {rule: nulls, column: sex")

    assert problems_of(tmp_path, spec(500_000)) == ()  # 2 × 100 × 500 000 = 100 000 000 cells
    (problem,) = problems_of(tmp_path, spec(500_001))
    assert problem.field == "tables[0].dimensions"
    assert problem.what.startswith("100000200 cells")
    (problem,) = problems_of(tmp_path, spec(10**9))
    assert problem.field == "columns.income.integer"
    assert problem.what.startswith("the range has 1000000000 bins")


def test_names_that_published_tables_have_of_their_own(tmp_path: Path) -> None:
    text = block(
        "columns",
        "columns:\n  Count: {categories: [a]}\n  x: {categories: [a]}\n  x_label: {categories: [a]}",
    )
    text = block(
        "tables", "tables:\n  - {name: t, dimensions: [Count, x, x_label]}", block("rules", "", text)
    )
    found = problems_of(tmp_path, text)
    assert [p.field for p in found] == ["tables[0].dimensions[0]", "tables[0].dimensions[2]"]


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    """One mistake in every part: shape, cross-checks, mechanism and code list, in the order of the files."""
    text = SPEC
    for old, new in [
        ("product: persons", "prodct: persons"),
        ('budget: "1"', "budget: 0.1"),
        ("nulls: other, other: other}", "nulls: other}"),
        ("dimensions: [area, age, sex]", "dimensions: [area, age, gender]"),
        ('share: "2/3"', "share: 0.66"),
        ("dimensions: [sex, status]", "dimensions: [sex, status]\n    mechanism: magic"),
        ("column: status", "column: stat"),
        ('at_most: "5%"', "at_most: 5"),
    ]:
        text = changed(old, new, text)
    found = problems_of(tmp_path, text, {"areas.csv": AREAS.replace("N2,Northfield,N", "N2,Northfield,X")})
    assert [(p.file, p.line, p.field) for p in found] == [
        ("spec.yaml", 1, "prodct"),
        ("spec.yaml", 5, "privacy.budget"),
        ("spec.yaml", 10, "columns.status.nulls"),
        ("spec.yaml", 13, "tables[0].dimensions[2]"),
        ("spec.yaml", 14, "tables[0].share"),
        ("spec.yaml", 18, "tables[1].mechanism"),
        ("spec.yaml", 22, "rules[1].at_most"),
        ("spec.yaml", 22, "rules[1].column"),
        ("areas.csv", 6, "parent"),
    ]


def test_a_code_list_is_read_even_when_its_column_has_another_mistake(tmp_path: Path) -> None:
    text = changed("levels: [nation", "levles: [nation")
    found = problems_of(tmp_path, text, {"areas.csv": AREAS + "N1,again,N\n"})
    assert [(p.file, p.line) for p in found] == [("spec.yaml", 7), ("areas.csv", 8)]


def test_two_code_lists_of_one_name(tmp_path: Path) -> None:
    lists = {"areas.csv": AREAS, "more/areas.csv": AREAS + "S2,x,S\n"}
    (tmp_path / "more").mkdir()
    text = changed("  age:", "  work: {hierarchy: more/areas.csv, levels: [a, b, c]}\n  age:")
    (problem,) = problems_of(tmp_path, text, lists)
    assert problem.field == "columns.work.hierarchy"
    assert "rename one" in problem.hint
    same = {"areas.csv": AREAS, "more/areas.csv": AREAS}
    assert problems_of(tmp_path, text, same) == ()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://me:hunter2@host/db", "password"),
        ("postgresql://me:@host/db", "password"),
        ("postgresql://host/db?user=me&password=hunter2", "password"),
        ("postgresql://host/db?sslpassword=hunter2", "password"),
        ("snowflake://a/b?access_token=hunter2", "password"),
        ("host/db", "not a URL"),
        ("postgresql://[host/db", "not a URL"),
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_repeated(tmp_path: Path, url: str, says: str) -> None:
    (problem,) = problems_of(tmp_path, block("source", f'source: {{url: "{url}", table: people}}'))
    assert says in problem.what
    assert "hunter2" not in format_problems([problem])
    found = examine(
        write_spec(tmp_path), source=url if "://" in url else f"x://{url}?password=hunter2"
    ).problems
    assert found
    assert "hunter2" not in format_problems(found)


@pytest.mark.parametrize(
    ("source", "field", "problems"),
    [
        ('{path: a.csv, url: "postgresql://me:hunter2@host/db"}', "source.url", 2),
        ('{path: "s3://me:hunter2@bucket/a.parquet", table: 3, engine: other}', "source.path", 3),
        ('{path: "postgresql://me:hunter2@host/db", table: people}', "source.path", 2),
        ('{path: "s3://me:hunter2@bucket/a.parquet"}', "source.path", 1),
        ('{url: "postgresql://me:hunter2@host/db"}', "source.url", 2),
    ],
)
def test_a_secret_is_named_whatever_else_is_wrong_with_the_source(
    tmp_path: Path, source: str, field: str, problems: int
) -> None:
    found = problems_of(tmp_path, block("source", f"source: {source}"))
    assert [problem.field for problem in found if "password" in problem.what] == [field]
    assert len(found) == problems
    assert "hunter2" not in format_problems(found)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{url: "postgresql://me@host/db?sslkey=client.key"}', "source.table"),
        ('{url: "sqlite:///people.db", table: "people; drop"}', "source.table"),
        ('{url: "sqlite:///people.db", table: people, format: csv}', "source.format"),
        ('{url: "sqlite:///people.db", table: people, nulls: [N]}', "source.nulls"),
        ('{url: "sqlite:///people.db", table: people, engine: duckdb}', "source.engine"),
    ],
)
def test_database_sources(tmp_path: Path, text: str, field: str) -> None:
    (problem,) = problems_of(tmp_path, block("source", f"source: {text}"))
    assert problem.field == field


@pytest.mark.parametrize(
    ("content", "says"),
    [("", "empty"), ("# nothing\n", "empty"), ("just text\n", "key: value"), ("[1, 2]\n", "key: value")],
)
def test_files_that_are_no_specs(tmp_path: Path, content: str, says: str) -> None:
    (problem,) = problems_of(tmp_path, content)
    assert says in problem.what


def test_an_empty_mapping_lacks_everything_that_is_required(tmp_path: Path) -> None:
    found = problems_of(tmp_path, "{}")
    assert [p.field for p in found] == [
        "product",
        "dataset",
        "period",
        "source",
        "privacy",
        "columns",
        "tables",
    ]


def test_the_exception(tmp_path: Path) -> None:
    path = write_spec(
        tmp_path, changed('budget: "1"', "budget: 0.1").replace("product: persons", "product: P")
    )
    with pytest.raises(SpecProblems) as caught:
        load_spec(path)
    error = caught.value
    assert isinstance(error, SpecError)
    assert [p.line for p in error.problems] == [1, 5]
    assert str(error) == (
        "spec.yaml:1: product: `P` is not a name that fits here; "
        "use small letters, digits and hyphens, at most 63 (and 1 more: run `tabularium check`)"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.problems) == (str(error), error.problems)
    assert str(error) != str(SpecProblems(error.problems[:1]))
    assert "more" not in str(SpecProblems(error.problems[:1]))


def test_a_missing_spec_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SpecProblems, match=r"^none\.yaml: there is no such file; name the YAML file"):
        load_spec(tmp_path / "none.yaml")


def test_format() -> None:
    problem = Problem(12, "tables[0].share", "is wrong", "mend it", "spec.yaml")
    assert format_problems([problem, problem]) == "\n".join(
        ["spec.yaml:12: tables[0].share: is wrong; mend it"] * 2
    )
    assert problem.as_json() == {"line": 12, "field": "tables[0].share", "what": "is wrong", "hint": "mend it", "file": "spec.yaml"}  # fmt: skip
    assert str(Problem(None, "--period", "is wrong", "")) == "--period: is wrong"
    assert field_name(("a", 0, "b\x1b", 3)) == "a[0].b\ufffd[3]"


def test_what_is_quoted_cannot_reach_the_terminal() -> None:
    assert shown("a\x1b[31mb\nc\u202ed") == "a\ufffd[31mb\ufffdc\ufffdd"
    assert shown("x" * 100) == "x" * 39 + "…"


def test_nearest() -> None:
    assert nearest("Identiti", ["identity", "cells"]) == "identity"
    assert nearest("zzz", ["identity", "cells"]) is None
    many = [f"code{i:05}" for i in range(100_000)]
    assert nearest("code7777x", many) is None  # too many to compare with, and no guess is made
    assert nearest("Berln", [*many, "Berlin"]) == "Berlin"


def test_steps_that_need_consistency(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, SPEC + "\npostprocessing: {consistency: false, rounding: false}\n")
    assert [problem.field for problem in problems] == ["postprocessing.nonnegativity"]
    assert "nonnegativity: false" in problems[0].hint
    off = "{consistency: false, nonnegativity: false, rounding: false}"
    assert problems_of(tmp_path, SPEC + f"\npostprocessing: {off}\n") == ()
