"""The specs of the net: what each publishes, and what is asked of it then.

Each is a function that writes a small made-up scene into a folder and publishes it: the scenes are those of other
tests where there is one. The name of the function is the name of the spec in ``digests.json``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import AwaitingReview, Ledger
from tabularium.mechanisms import MECHANISMS
from tabularium.tasks.runtime.home import Home
from tests.flows.release import test_bounds_by_group, test_look_up_release, test_rates
from tests.flows.release.scene import publish, write_scene
from tests.flows.release.slab_scene import small_memory, write_slab_scene
from tests.flows.release.test_drawn_to_prior import fine, with_prior
from tests.flows.release.test_histograms_of_sizes import add as add_histogram
from tests.flows.release.test_impossible_release import facts
from tests.flows.release.test_measures import with_measures
from tests.flows.release.test_regions_release import write_regions
from tests.flows.release.test_reviewed import write_reviewed
from tests.flows.release.test_tables_agree import KNOWN
from tests.flows.release.test_tables_agree import scene as write_agreeing
from tests.flows.release.test_tallies import households
from tests.flows.release.test_universe_release import write_universes
from tests.tasks.engines import one_spec
from tests.tasks.publish.formats.a_release import a_release

PURE, ZCDP = "pure", "zcdp"


@dataclass(frozen=True)
class Published:
    """Releases of one spec, in the order in which they were published, and what is asked of the last.

    Attributes
    ----------
    queries
        Words of ``tabularium query`` after the release.
    plans
        Words of ``tabularium plan`` after the spec; ``LAST`` stands for the last release.
    """

    spec: Path
    home: Home
    releases: tuple[Path, ...]
    queries: tuple[tuple[str, ...], ...] = (("count",),)
    plans: tuple[tuple[str, ...], ...] = ()


Publishing = Callable[[Path], Published]
SPECS: dict[str, Publishing] = {}


def spec_of_the_net(publishing: Publishing) -> Publishing:
    """Take a spec into the net."""
    SPECS[publishing.__name__] = publishing
    return publishing


def released(spec: Path, home: Home, **asked: Any) -> Published:
    """Publish a spec once."""
    return Published(spec, home, (Path(publish(spec, home).folder),), **asked)


def change(spec: Path, *changes: tuple[str, str], more: str = "") -> None:
    """Put other words into a spec, and more at its end."""
    text = spec.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    spec.write_text(text + more)


def invoked(*words: str | Path) -> tuple[int, str]:
    """Run a command of the command line; return how it ended, and what it printed."""
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "400"})
    return done.exit_code, done.stdout + done.stderr


def command(*words: str | Path) -> None:
    """Run a command that must succeed."""
    code, text = invoked(*words)
    assert code == 0, f"{words}: {text}"


# --- plain noise


RULES = """[
  {rule: row_count, min: 1, change_from_last: "50%"}, {rule: nulls, column: age, at_most: "1%"},
  {rule: invalid, column: area, at_most: "1%"}, {rule: range, column: age, max: 98, severity: warn},
  {rule: unique, columns: [area, age, sex], severity: warn}]"""
UNTOUCHED = "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
ABOUT = """\
about: {title: Small numbers, curator: {name: Office}, region: {code: XA}, language: en}
targets: [{table: area_age_sex, level: place, margin: 9}, {table: age_sex, relative: "10%", at: 90}]
"""


@spec_of_the_net
def plain(folder: Path) -> Published:
    """The small release as other tests have it."""
    return released(*write_scene(folder))


@spec_of_the_net
def two_periods(folder: Path) -> Published:
    """Laplace noise, exact rules, one more record than the domain takes; the second report compares."""
    spec, home = write_scene(folder, max_rejected='"5%"', rules=RULES, extra=[("A1", "100", "1")])
    change(spec, more=ABOUT)
    releases = (Path(publish(spec, home, period=period).folder) for period in ("2025", "2026"))
    return Published(
        *(spec, home, tuple(releases)),
        queries=(
            ("count",),
            ("count by province, sex where 20 <= age < 65", "--bounds"),
            ("count by sex", "--from", "tables"),
        ),
        plans=((), ("--budget", "1/2", "--like", "LAST", "--mechanisms")),
    )


@spec_of_the_net
def untouched_and_withheld(folder: Path) -> Published:
    """No post-processing, measurements withheld, units of several records, other confidence."""
    spec, home = households(folder, "add-remove", PURE)
    withheld = '{measurements: {withhold: "a test"}, confidence: "95%", '
    change(spec, ("publication: {", f"publication: {withheld}"), more=UNTOUCHED)
    return released(spec, home, queries=(("count by age",),))


@spec_of_the_net
def zcdp_tallies(folder: Path) -> Published:
    """Gaussian noise, tallies of cut units and records, units replaced."""
    spec, home = households(folder, "replace", ZCDP)
    targets = "targets: [{table: area_age_sex, level: nation, margin: 40}, {table: age_sex, margin: 50}]\n"
    change(spec, more=targets)
    return released(spec, home, queries=(("count by nation, sex", "--bounds"),), plans=((),))


# --- mechanisms


PARAMETERS = {"fpa": "{k: 5}", "structure_first": "{largest_count: 100}", "mwem": "{rounds: 3}"}
FORMS = {
    "denoise_mixture": ("denoise", "{form: mixture, shifts: 2}"),
    "denoise_cut": ("denoise", "{form: mixture, shifts: 1, sign: cut}"),
    "denoise_sparse": ("denoise", "{form: sparse}"),
    "denoise_wavelet": ("denoise", "{form: wavelet, sign: free}"),
    "denoise_ranges": ("denoise", "{workload: ranges}"),
    "dawa_ranges": ("dawa", "{workload: ranges}"),
    "structure_first_boost": ("structure_first", "{largest_count: 100, boost: true, centre: median}"),
    "noise_first_risk": ("noise_first", "{risk_runs: 3}"),
    "kd_tree_risk": ("kd_tree", "{risk: true, split: median}"),
    "mwem_ranges": ("mwem", "{workload: ranges, rounds: 3}"),
}
OF_NO_TABLE = ("privhist", "sorted_isotonic")  # they do not say which cell has which count


def _every_mechanism(folder: Path, definition: str, budget: str) -> Published:
    spec, home = write_scene(folder, definition=definition, budget=budget, cap="1000")
    named = {name: (name, PARAMETERS.get(name, "{}")) for name in MECHANISMS if name not in OF_NO_TABLE}
    tables = [
        f"  - {{name: {table}, dimensions: [age, sex], mechanism: {name}, parameters: {parameters}}}\n"
        for table, (name, parameters) in (named | FORMS).items()
        if definition in MECHANISMS[name].definitions
    ]
    text = spec.read_text().replace(", edges: [20, 65]", ", width: 7")
    before, after = text.index("tables:"), text.index("rules:")
    spec.write_text(f"{text[:before]}tables:\n{''.join(tables)}{text[after:]}")
    change(spec, more=UNTOUCHED)
    queries = [("count by sex where 21 <= age < 70 from denoise_ranges",), ("count by sex from boost",)]
    return released(spec, home, queries=tuple(queries))


@spec_of_the_net
def every_mechanism(folder: Path) -> Published:
    """Each mechanism that measures tables, in each form, under pure privacy."""
    return _every_mechanism(folder, PURE, "60")


@spec_of_the_net
def every_mechanism_zcdp(folder: Path) -> Published:
    """The same under concentrated privacy."""
    return _every_mechanism(folder, ZCDP, "60")


@spec_of_the_net
def histogram(folder: Path) -> Published:
    """Counts of counts, and a table whose error is measured and whose levels agree."""
    spec, home = write_scene(folder, rows=600, budget="8")
    add_histogram(spec)
    change(
        spec,
        ("    dimensions: [area", '    mechanism: sreb_gca\n    margin_share: "1/10"\n    dimensions: [area'),
    )
    return released(spec, home, queries=(("count by sex where age < 65", "--table", "area_age_sex"),))


@spec_of_the_net
def regions(folder: Path) -> Published:
    """Tables measured in each region by itself."""
    return released(*write_regions(folder))


@spec_of_the_net
def slabs(folder: Path) -> Published:
    """A table done in parts, signed."""
    with small_memory():
        return released(*write_slab_scene(folder))


@spec_of_the_net
def drawn_to_prior(folder: Path) -> Published:
    """Drawn towards the release of the year before."""
    spec, home = fine(folder, PURE)
    first = Path(publish(spec, home).folder)
    with_prior(spec, first.name)
    second = Path(publish(spec, home, period="2027").folder)
    return Published(spec, home, (first, second), queries=(("count by nation, sex where age < 20",),))


@spec_of_the_net
def drawn_to_above(folder: Path) -> Published:
    """Drawn towards the level above, under concentrated privacy."""
    spec, home = fine(folder, ZCDP)
    with_prior(spec, "above")
    return released(spec, home)


# --- measures


INCOMES = (
    ("sum(income) by province, sex",),
    ("average(mean_income) by sex",),
    ("median(typical) by nation",),
    ("count",),
)
MEASURE_TARGETS = "targets: [{table: area_age_sex, margin: 90}, {table: age_sex, margin: 90}]\n"


@spec_of_the_net
def measures(folder: Path) -> Published:
    """Sums, means, medians and quantiles by trees and choices, weighted or not; four formats."""
    spec, home = with_measures(folder)
    change(spec, more=MEASURE_TARGETS)
    return released(
        spec, home, queries=INCOMES, plans=((), ("--budget", "1/2", "--like", "LAST", "--bounds"))
    )


@spec_of_the_net
def measures_zcdp_quality(folder: Path) -> Published:
    """The same under concentrated privacy, with numbers that are flagged or left blank; structure in JSON."""
    spec, home = with_measures(folder, definition=ZCDP)
    quality = '{unreliable: "5%", suppress: "10%", at_least: 3, means: {unreliable: "2%", part_of: value}}'
    change(
        spec,
        ("publication: {", f"publication: {{quality: {quality}, "),
        ("{agency: TEST}", "{agency: TEST, structure: json}"),
    )
    return released(spec, home, queries=(("sum(income)", "--from", "measurements"),))


@spec_of_the_net
def rates(folder: Path) -> Published:
    """Rates and percentages of records, over public figures, over another table, and weighted."""
    spec = test_rates.write(folder, test_rates.people(), "2")
    home = test_rates.home_for(folder, PURE)
    return released(spec, home, queries=(("rate(working) by province",), ("sum(per_head) by sex",)))


@spec_of_the_net
def rates_zcdp(folder: Path) -> Published:
    """The same under concentrated privacy."""
    spec = test_rates.write(folder, test_rates.people(), "2", ZCDP)
    return released(spec, test_rates.home_for(folder, ZCDP))


@spec_of_the_net
def bounds_by_group(folder: Path) -> Published:
    """Sums and means whose bounds differ by a column."""
    spec = test_bounds_by_group.write(folder, "1")
    return released(spec, test_rates.home_for(folder, PURE), queries=(("sum(total) by sector",),))


# --- what tables are of


@spec_of_the_net
def universes(folder: Path) -> Published:
    """Tables of some records only."""
    spec, home = write_universes(folder)
    return released(spec, home, queries=(("count where age >= 20",), ("count from grown",)))


@spec_of_the_net
def look_ups(folder: Path) -> Published:
    """Looked up in a table of the unit and in a public one."""
    return released(*test_look_up_release.write_look_ups(folder), queries=(("sum(income) by region",),))


@spec_of_the_net
def impossible(folder: Path) -> Published:
    """Cells that nobody can be in, beside measures and two codings of one column."""
    spec, home = with_measures(folder, edit=facts, max_rejected='"50%"')
    return released(spec, home, queries=(("count by sex where years < 20", "--table", "by_years"),))


@spec_of_the_net
def invariants(folder: Path) -> Published:
    """Public numbers that all tables show exactly."""
    return released(*write_agreeing(folder, KNOWN), queries=(("count by province, sex",), ("count",)))


@spec_of_the_net
def every_format(folder: Path) -> Published:
    """All formats with the catalogue, codes that look like formulas, a histogram, flags."""
    release = a_release(folder, "csv, parquet, xlsx, sdmx, catalogue")
    return Published(folder / "small.yaml", Home.at(folder / "home"), (release,), queries=())


# --- what officers decide


@spec_of_the_net
def reviewed(folder: Path) -> Published:
    """A draft that an officer accepts, signed, with a noisy rule."""
    rule = '[{rule: row_count, min: 1, noisy: {share: "1/10"}}]'
    spec, home, key = write_reviewed(folder, rules=rule)
    with pytest.raises(AwaitingReview):
        publish(spec, home)
    (draft,) = (folder / "drafts" / "small" / "2026").iterdir()
    name = draft.name
    command("ledger", "accept", name, "--key", key, "--home", home.path)
    return Published(spec, home, (folder / "releases" / "small" / "2026" / name,))


@spec_of_the_net
def revisions(folder: Path) -> Published:
    """A release, one of another input, and one made of the measurements of the first for nothing."""
    spec, home = write_scene(folder)
    key, at = folder / "officer.pem", ("--home", home.path)
    command("ledger", "keys", "new", key)
    command("ledger", "keys", "enrol", key.with_suffix(".pub.pem"), "--officer", "A", "--key", key, *at)
    first = Path(publish(spec, home).folder)
    people = folder / "people.csv"
    people.write_text(people.read_text() + "A1,30,1\n")
    late = (spec, "--revises", "late questionnaires")
    command("ledger", "approve", *late, "--key", key, *at)
    command("run", *late, *at)
    change(spec, more="postprocessing: {rounding: false}\n")
    remade = (spec, "--revises", "sums of rounded cells", "--measurements-of", first.name)
    command("ledger", "approve", *remade, "--key", key, *at)
    command("run", *remade, *at)
    index = json.loads((first.parent / "index.json").read_text())
    return Published(spec, home, tuple(first.with_name(each["release_id"]) for each in index["releases"]))


# --- engines


def people_for_engines() -> pa.Table:
    """Records that every source holds alike: no nulls, nothing odd."""
    rows = range(240)
    return pa.table(
        {
            "person": [f"p{i // 3}" for i in rows],
            "region": ["nsew"[i * i % 7 % 4] for i in rows],
            "weight": [1 + i % 6 for i in rows],
            "born": [f"{1940 + i % 80}-0{1 + i % 9}-{10 + i % 19}" for i in rows],
            "home": [f"h{i // 4 % 30}" for i in rows],
            "age": [i * 7 % 100 for i in rows],
            "income": [i * 13 % 200 / 2 for i in rows],
        }
    )


def from_engine(folder: Path, source: str) -> Published:
    """Publish the records of a source, on whatever engine."""
    one_spec.spec(folder, source)
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as books:
        terms = {"unit": "person", "relation": "add-remove", "definition": "pure", "cap": Fraction(9)}
        books.open_account("survey", **terms)
    return released(folder / "spec.yaml", home, queries=(("count by region",), ("sum(all) by band",)))


def write_for_engines(folder: Path) -> pa.Table:
    """Write the records as Parquet, CSV and SQLite; return them."""
    table = people_for_engines()
    (folder / "zones.csv").write_text(one_spec.ZONES)
    pq.write_table(table, folder / "people.parquet")
    pyarrow.csv.write_csv(table, folder / "people.csv")
    with closing(sqlite3.connect(folder / "people.db")) as books, books:
        names = ", ".join(table.schema.names)
        books.execute(f"CREATE TABLE people ({names})")
        rows = zip(*table.to_pydict().values(), strict=True)
        books.executemany(f"INSERT INTO people VALUES ({', '.join('?' * table.num_columns)})", rows)
    return table


IN_FILES = {
    "csv": "path: people.csv",
    "parquet": one_spec.ON_DUCKDB,
    "sqlite": "url: sqlite:///people.db, table: people",
}


@spec_of_the_net
def any_engine(folder: Path) -> Published:
    """Derived columns, look-ups, weights, several records of a unit; the same of every engine."""
    write_for_engines(folder)
    return from_engine(folder, IN_FILES["parquet"])
