"""Files of a sample: exact, repeatable, whole or not there."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from tabularium.lab.sample import write_sample
from tabularium.lab.sample.columns import COLUMNS
from tabularium.mechanisms.errors import InputError
from tabularium.validations.release_spec.load import load_spec

CENSUS = ["person_id", "household_id", "meshblock", "age", "sex", "status", "income"]
ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI XXII"
HOUSEHOLDS = [
    *("person_id", "household_id", "district", "role", "sex", "age", "marital", "birthplace", "education"),
    *("status", "occupation", "industry", "hours", "income"),
]
LABOUR = [
    *("person_id", "household_id", "district", "sex", "age", "education", "status", "position", "occupation"),
    *("industry", "hours", "pay", "months", "weight"),
]
HOSPITAL = [
    *("stay_id", "patient_id", "sex", "born", "district", "hospital", "admission", "admitted", "discharged"),
    *("nights", "diagnosis", "outcome", "cost"),
]
HEALTH = ["visit_id", "patient_id", "age", "sex", "district", "chapter", "month", "stay"]


def rows_of(path: Path) -> list[tuple[str, ...]]:
    """All values as text, in order."""
    table = pq.read_table(path)
    columns = [table[name].cast(pa.string()).fill_null("").to_pylist() for name in table.column_names]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        *(("census", CENSUS), ("health", HEALTH), ("households", HOUSEHOLDS), ("labour", LABOUR)),
        ("hospital", HOSPITAL),
    ],
)
def test_every_format_holds_the_same_records(tmp_path: Path, kind: str, columns: list[str]) -> None:
    parquet, plain, zipped = (
        write_sample(kind, 3001, tmp_path / f"{ending[1:4]}{len(ending)}{ending}").data
        for ending in (".parquet", ".csv", ".csv.gz")
    )
    text = plain.read_text()
    assert gzip.decompress(zipped.read_bytes()).decode() == text
    header, *lines = csv.reader(text.splitlines())
    assert header == columns == pq.read_schema(parquet).names == list(COLUMNS[kind])
    assert [tuple(line) for line in lines] == rows_of(parquet)
    assert len(lines) == 3001
    assert '"' not in text


def test_parquet_columns_are_whole_numbers_and_texts(tmp_path: Path) -> None:
    data = write_sample("census", 10, tmp_path / "p.parquet").data
    assert pq.read_schema(data).types == [
        pa.int64(), pa.int64(), pa.string(), pa.int32(), pa.string(), pa.string(), pa.int32(),
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".parquet", ".csv.gz"])
@pytest.mark.parametrize("kind", ["census", "health", "households", "labour", "hospital"])
def test_the_seed_decides_every_byte(tmp_path: Path, kind: str, ending: str) -> None:
    made = []
    for folder, seed in (("a", 5), ("b", 5), ("c", 6)):
        (tmp_path / folder).mkdir()
        files = write_sample(kind, 2000, tmp_path / folder / f"p{ending}", seed=seed)
        made.append([path.read_bytes() for path in (files.data, *files.code_lists.values(), files.spec)])
    assert made[0] == made[1]
    assert made[0][0] != made[2][0]
    assert made[0][1] != made[2][1]


def test_a_short_sample_is_the_beginning_of_a_long_one(tmp_path: Path) -> None:
    short = write_sample("census", 999, tmp_path / "short.parquet", meshblocks=50).data
    long = write_sample("census", 400_000, tmp_path / "long.parquet", meshblocks=50).data
    assert pq.read_table(long).slice(0, 999).equals(pq.read_table(short))


@pytest.mark.parametrize("kind", ["census", "health"])
def test_blocks_join_without_a_seam(tmp_path: Path, kind: str) -> None:
    seen: list[int] = []
    data = write_sample(kind, 700_000, tmp_path / "p.parquet", progress=seen.append).data
    file = pq.ParquetFile(data)
    assert file.metadata.num_rows == 700_000
    assert seen[-1] == 700_000
    assert seen == sorted(set(seen))
    assert len(seen) == file.metadata.num_row_groups > 1
    ids = file.read(columns=[file.schema_arrow.names[0]]).column(0).to_numpy()
    assert (ids == range(1, 700_001)).all()
    groups = file.read(columns=[file.schema_arrow.names[1]]).column(0).to_numpy()
    steps = groups[1:] - groups[:-1]
    assert groups[0] == 1
    assert set(steps.tolist()) == {0, 1}  # households and patients are whole, one after the other


@pytest.mark.parametrize("meshblocks", [1, 2, 7, 2000])
def test_the_code_list_is_one_tree_with_exactly_the_meshblocks(tmp_path: Path, meshblocks: int) -> None:
    files = write_sample("census", 3000, tmp_path / "p.parquet", meshblocks=meshblocks)
    with files.code_lists["areas"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    parent = {row["code"]: row["parent"] for row in rows}
    assert len(parent) == len(rows)
    letters = Counter(code[0] for code in parent)
    assert letters["N"] == 1
    assert letters["M"] == meshblocks
    above = {"N": "", "R": "N", "D": "R", "M": "D"}
    assert all(code[0] == "N" or parent[code][0] == above[code[0]] for code in parent)
    childless = set(parent) - set(parent.values())
    assert {code[0] for code in childless} == {"M"}
    assert len({row["label"] for row in rows}) == len(rows)
    assert set(pq.read_table(files.data, columns=["meshblock"])["meshblock"].to_pylist()) <= childless


@pytest.mark.parametrize(("rows", "expected"), [(1, 40), (4000, 40), (20_000, 200)])
def test_meshblocks_grow_with_the_rows(tmp_path: Path, rows: int, expected: int) -> None:
    files = write_sample("census", rows, tmp_path / "p.csv")
    codes = [line.split(",")[0] for line in files.code_lists["areas"].read_text().splitlines()]
    assert sum(code.startswith("M") for code in codes) == expected


def test_the_chapters_are_those_of_the_icd_10(tmp_path: Path) -> None:
    files = write_sample("health", 5000, tmp_path / "p.csv")
    with files.code_lists["chapters"].open(newline="") as file:
        root, *chapters = csv.DictReader(file)
    assert (root["code"], root["parent"]) == ("ALL", "")
    assert [row["code"] for row in chapters] == (ROMAN.split())
    assert {row["parent"] for row in chapters} == {"ALL"}
    assert chapters[8]["label"] == "Diseases of the circulatory system"
    assert set(files.code_lists) == {"areas", "chapters"}
    assert "M0000001" not in files.code_lists["areas"].read_text()


@pytest.mark.parametrize("name", ["people.parquet", "My People (2).csv.gz", "été: x #1.csv", "---.csv"])
@pytest.mark.parametrize("kind", ["census", "health"])
def test_the_spec_loads_and_its_domains_hold_every_value(tmp_path: Path, kind: str, name: str) -> None:
    files = write_sample(kind, 20_000, tmp_path / name)
    loaded = load_spec(files.spec)
    assert Path(loaded.source_uri) == files.data.resolve()
    assert loaded.spec.privacy.unit.column == (None if kind == "census" else "patient_id")
    assert loaded.spec.privacy.max_contributions == (1 if kind == "census" else 5)
    first = loaded.spec.tables[0]
    assert list(first.levels)[:3] == ["nation", "region", "district"]
    data = write_sample(kind, 20_000, tmp_path / "again.parquet").data
    table = pq.read_table(data)
    for column, domain in loaded.domains.items():
        if hasattr(domain, "edges"):
            values = table[column].to_numpy()
            assert domain.edges[0] <= values.min() <= values.max() < domain.edges[-1]
        else:
            assert set(table[column].to_pylist()) <= set(domain.codes)


@pytest.mark.parametrize("name", ["people.csv", "My People (2).csv.gz", "été: x #1.parquet"])
@pytest.mark.parametrize("kind", ["households", "labour", "hospital"])
def test_an_example_is_written_for_the_files_beside_it(tmp_path: Path, kind: str, name: str) -> None:
    files = write_sample(kind, 300, tmp_path / name)
    loaded = load_spec(files.spec)
    assert Path(loaded.source_uri) == files.data.resolve()
    assert loaded.spec.product == loaded.spec.dataset
    assert loaded.spec.product in files.spec.read_text().split("ledger open ")[1]
    assert set(tmp_path.iterdir()) == {
        files.data,
        files.spec,
        *files.code_lists.values(),
        *files.others.values(),
    }


def test_the_name_of_the_file_names_the_account(tmp_path: Path) -> None:
    spec = load_spec(write_sample("census", 10, tmp_path / "people.parquet").spec).spec
    assert (spec.product, spec.dataset) == ("people", "people")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"rows": 0}, "rows: "),
        ({"rows": -5}, "rows: "),
        ({"rows": True}, "rows: "),
        ({"kind": "cows"}, "kind: "),
        ({"seed": -1}, "seed: "),
        ({"meshblocks": 0}, "meshblocks: "),
        ({"meshblocks": 1_000_001}, "meshblocks: "),
        ({"out": "people.xlsx"}, "ending"),
        ({"out": "people"}, "ending"),
        ({"out": ".csv"}, "ending"),
        ({"out": "p*.csv"}, "pattern"),
        ({"out": "missing/p.csv"}, "no such folder"),
        ({"out": "file/p.csv"}, "no such folder"),
        ({"out": "folder.csv"}, "a folder has this name"),
        ({"out": "there.csv"}, "exists"),
        ({"out": "spec.csv"}, "exists"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, change: dict[str, object], part: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "spec.yaml").write_text("mine")
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.rglob("*"))
    arguments = {"kind": "census", "rows": 10, "out": "p.csv", **change}
    arguments["out"] = tmp_path / str(arguments["out"])
    with pytest.raises(InputError) as caught:
        write_sample(**arguments)  # type: ignore[arg-type]
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.csv").read_text() == (tmp_path / "spec.yaml").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files, even root's")
def test_a_folder_that_takes_no_files() -> None:
    with pytest.raises(InputError, match=r"^/proc: cannot write here; check"):
        write_sample("census", 10, Path("/proc/people.parquet"))


def test_a_gzip_file_holds_no_name_and_no_time(tmp_path: Path) -> None:
    header = write_sample("census", 10, tmp_path / "p.csv.gz").data.read_bytes()[:10]
    assert header[:8] == b"\x1f\x8b\x08" + bytes(5)  # magic, deflate, no flags, time 0


def test_overwriting_replaces_every_file(tmp_path: Path) -> None:
    first = write_sample("health", 100, tmp_path / "p.parquet", seed=1)
    old = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="exists"):
        write_sample("health", 200, tmp_path / "p.parquet", seed=2)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == old
    first.spec.write_text("changed")
    write_sample("health", 200, tmp_path / "p.parquet", seed=2, overwrite=True)
    assert pq.read_metadata(first.data).num_rows == 200
    assert first.spec.read_bytes() == old[first.spec]
    assert set(tmp_path.iterdir()) == set(old)


@pytest.mark.parametrize("name", ["p.parquet", "p.csv.gz"])
def test_an_interruption_leaves_nothing(tmp_path: Path, name: str) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_sample("census", 600_000, tmp_path / name, progress=stop)
    assert list(tmp_path.iterdir()) == []


def run_python(code: str, *arguments: str) -> str:
    """Run ``code`` in a process of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


FULL = """
import resource, signal, sys
from pathlib import Path
from tabularium.lab.sample import write_sample
from tabularium.lab.sample.columns import COLUMNS
from tabularium.mechanisms.errors import InputError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    write_sample("census", 300_000, Path(sys.argv[1]), meshblocks=40)
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["p.parquet", "p.csv.gz"])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    assert run_python(FULL, str(tmp_path / name)).startswith(f"{tmp_path}: the disk is full; free")
    assert list(tmp_path.iterdir()) == []


# Not ru_maxrss: that begins with what the parent had when it forked.
PEAK = """
import re, sys
from pathlib import Path
from tabularium.lab.sample import write_sample
from tabularium.lab.sample.columns import COLUMNS
write_sample("census", int(sys.argv[2]), Path(sys.argv[1]), meshblocks=2000)
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    few, many = (
        int(run_python(PEAK, str(tmp_path / f"{rows}.parquet"), str(rows))) for rows in (700_000, 2_500_000)
    )
    assert many < few + 30  # MB; 1.8 million rows more are 65 MB at the least


def test_csv_reads_back_with_the_types_of_parquet(tmp_path: Path) -> None:
    plain = pacsv.read_csv(write_sample("census", 500, tmp_path / "a.csv").data)
    parquet = pq.read_table(write_sample("census", 500, tmp_path / "b.parquet").data)
    assert plain.to_pylist() == parquet.to_pylist()


@pytest.mark.parametrize("kind", ["census", "households", "labour", "hospital", "health"])
def test_the_page_counts_the_tables_of_each_spec(tmp_path: Path, kind: str) -> None:
    files = write_sample(kind, 100, tmp_path / "people.parquet")
    page = (Path(__file__).parents[3] / "docs" / "reference" / "sample-data.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{kind}` |")]
    assert f"| {len(load_spec(files.spec).spec.tables)} tables" in row
    homes = tmp_path / "people-households.parquet"
    if homes.exists():
        assert pq.read_schema(homes).names == list(COLUMNS["households: homes"])
