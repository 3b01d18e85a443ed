"""Folders of releases that somebody forged, read by every command that opens one: a line, and soon."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.dry_run import dry_run_priors
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import publish
from tests.flows.release.test_drawn_to_prior import fine, with_prior

SECONDS = 60  # of a busy machine
MEMORY = 2 << 30  # bytes beyond what the process has
TABLE, MEASUREMENT, LIST = (
    "area_age_sex.parquet",
    "measurements/area_age_sex.nation.parquet",
    "codes/areas.csv",
)
CERTIFICATE, INDEX = "certificate.json", "measurements/measurements.json"


@dataclass(frozen=True)
class Forged:
    """A copy of all that an agency has, in which one release is forged."""

    spec: Path
    release: Path
    later: Path

    @property
    def releases(self) -> Path:
        """The folder of releases."""
        return self.release.parents[2]


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forged]:
    folder = tmp_path_factory.mktemp("agency")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 8)
        spec, home = fine(folder, "pure")
        spec.write_text(
            spec.read_text().replace("{folder: releases}", "{folder: releases, formats: [csv, parquet]}")
        )
        first = Path(publish(spec, home, period="2025").folder)
        later = Path(publish(spec, home).folder)
    with_prior(spec, first.name)
    yield Forged(spec, first, later)


def copied(agency: Forged, to: Path) -> Forged:
    """Copy it to where it may be damaged."""
    at = agency.spec.parent
    shutil.copytree(at / "releases", to / "releases", symlinks=True)
    for path in to.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    for path in at.iterdir():
        if path.is_file():
            shutil.copyfile(path, to / path.name)
    return Forged(*(to / each.relative_to(at) for each in (agency.spec, agency.release, agency.later)))


# --- who reads


def command(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "250"})
    return done.exit_code, done.output


def as_prior(forged: Forged) -> tuple[int, str]:
    try:
        run = without_data(load_spec(forged.spec))
        dry_run_priors(run)
    except TabulariumError as error:
        return 1, error.line()
    return 0, ""


def site(forged: Forged, *options: str) -> tuple[int, str]:
    out = forged.spec.parent / "site"
    shutil.rmtree(out, ignore_errors=True)
    code, output = command("site", forged.releases, "--out", out, *options)
    return code or int("not shown" in output), output


def report(forged: Forged, *words: str | Path) -> tuple[int, str]:
    out = forged.spec.parent / "page.html"
    out.unlink(missing_ok=True)
    return command("report", *words, "--out", out)


READERS: dict[str, Callable[[Forged], tuple[int, str]]] = {
    "verify": lambda it: command("verify", it.release),
    "series": lambda it: command("verify", it.later, "--since", it.release),
    "query": lambda it: command("query", it.release, "count by sex"),
    "unverified": lambda it: command("query", it.release, "count by sex", "--unverified"),
    "from tables": lambda it: command(
        "query", it.release, "count by sex", "--unverified", "--from", "tables"
    ),
    "report": lambda it: report(it, it.release),
    "report, since last": lambda it: report(it, it.later, "--last", it.release),
    "site": site,
    "site, copied": lambda it: site(it, "--copy"),
    "prior": as_prior,
}


@contextmanager
def bounded() -> Iterator[None]:
    """Let what goes on take no more than so much memory and time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, hard))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def refused(forged: Forged, readers: Any, file: str) -> None:
    """See that each reader names the file, or verify what is wrong in it, in a line that does not speak of data."""
    for reader in readers:
        with bounded():
            code, output = READERS[reader](forged)
        assert code, f"{reader}: {output}"
        assert file in output or (reader in ("verify", "series") and "✗" in output), f"{reader}: {output}"
        assert "workspace" not in output, f"{reader}: {output}"
        assert "Traceback" not in output, f"{reader}: {output}"


# --- what is forged


def certificate_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / CERTIFICATE).read_text())
    return found


def seal(folder: Path, text: str | bytes | None = None) -> None:
    """Write a certificate, or name the digests of the files as they are, and name it in the period's index."""
    if text is None:
        found = certificate_of(folder)
        for name in found["files"]:
            if (folder / name).is_file():
                found["files"][name] = digest_of(folder / name)
        text = json.dumps(found)
    raw = text.encode() if isinstance(text, str) else text
    (folder / CERTIFICATE).write_bytes(raw)
    index = folder.parent / "index.json"
    told = json.loads(index.read_text())
    for entry in told["releases"]:
        entry["certificate"] = digest_of(folder / CERTIFICATE)
    index.write_text(json.dumps(told))


def with_value(steps: tuple[str | int, ...], value: str) -> Callable[[Path], None]:
    """Return what puts a JSON text into the place of a field."""

    def forge(folder: Path) -> None:
        found = certificate_of(folder)
        inner: Any = found
        for step in steps[:-1]:
            inner = inner[step]
        inner[steps[-1]] = "HERE"
        seal(folder, json.dumps(found).replace('"HERE"', value))

    return forge


def without(name: str) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        found = certificate_of(folder)
        del found[name]
        seal(folder, json.dumps(found))

    return forge


ABSURD = {
    "exponent": '"1e999999999"',
    "ten million digits": "9" * 10_000_000,
    "ten million digits as text": '"' + "9" * 10_000_000 + '"',
    "infinity": "Infinity",
    "1e400": "1e400",
}
FIELDS = [
    ("confidence",),
    ("ledger", "amount"),
    ("account", "cap"),
    ("privacy", "epsilon"),
    ("spec", "privacy", "budget"),
    ("tables", "area_age_sex", "rows"),
]
CERTIFICATES: dict[str, Callable[[Path], None]] = {
    **{f"confidence, {name}": with_value(("confidence",), value) for name, value in ABSURD.items()},
    **{".".join(field): with_value(field, ABSURD["exponent"]) for field in FIELDS[1:]},
    "deep": lambda folder: seal(folder, "[" * 100_000 + "]" * 100_000),
    "deep inside": with_value(("about",), "[" * 300 + "]" * 300),
    "a list": lambda folder: seal(folder, "[]"),
    "null": lambda folder: seal(folder, "null"),
    "empty": lambda folder: seal(folder, ""),
    "not UTF-8": lambda folder: seal(folder, b'{"format": "\xff\xfe"}'),
    "many values": lambda folder: seal(folder, "[" + "[]," * 3_000_000 + "[]]"),
}


def sparse(file: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / file, 8 << 30)


def instead(file: str, make: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Return what puts something else into the place of a file."""

    def forge(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        make(folder / file)

    return forge


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "socket": a_socket,
    "folder": Path.mkdir,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "link to itself": lambda path: path.symlink_to(path.name),
}

OF_FILES = [each for each in READERS if each != "prior"]


def test_what_was_published_is_read(agency: Forged) -> None:
    """The matrix refuses what is forged, and nothing else."""
    for name, reader in READERS.items():
        code, output = reader(agency)
        assert not code, f"{name}: {output}"


@pytest.mark.parametrize("kind", CERTIFICATES)
def test_a_forged_certificate_ends_in_a_line(agency: Forged, tmp_path: Path, kind: str) -> None:
    forged = copied(agency, tmp_path)
    CERTIFICATES[kind](forged.release)
    refused(forged, READERS, CERTIFICATE)


@pytest.mark.parametrize("kind", [*ODD, "8 GB"])
def test_something_else_in_place_of_the_certificate(agency: Forged, tmp_path: Path, kind: str) -> None:
    forged = copied(agency, tmp_path)
    (sparse(CERTIFICATE) if kind == "8 GB" else instead(CERTIFICATE, ODD[kind]))(forged.release)
    refused(forged, READERS, CERTIFICATE)


@pytest.mark.parametrize("kind", [*ODD, "8 GB"])
@pytest.mark.parametrize("file", [TABLE, MEASUREMENT, LIST])
def test_something_else_in_place_of_a_file(agency: Forged, tmp_path: Path, file: str, kind: str) -> None:
    forged = copied(agency, tmp_path)
    (sparse(file) if kind == "8 GB" else instead(file, ODD[kind]))(forged.release)
    readers = ["verify", "series", "query", "report", "site, copied"]
    if kind not in ("folder", "8 GB"):  # found when what is in it is read
        readers.append("unverified")
    if file == TABLE and kind != "folder":
        readers.append("prior")
    refused(forged, readers if kind != "folder" else ["verify", "query", "report", "site"], file)


def test_rows_that_the_certificate_claims_do_not_have_a_hole_read(agency: Forged, tmp_path: Path) -> None:
    """A file of 64 TiB takes no room to send, and days to read."""
    forged = copied(agency, tmp_path)
    with_value(("tables", "area_age_sex", "rows"), str(10**15))(forged.release)
    os.truncate(forged.release / TABLE, 900 << 30)
    refused(forged, ["verify", "query", "report", "site", "site, copied", "prior"], TABLE)


def test_many_wide_columns_that_no_table_has(agency: Forged, tmp_path: Path) -> None:
    forged = copied(agency, tmp_path)
    found = certificate_of(forged.release)
    for number in range(200):
        found["spec"]["columns"][f"c{number}"] = {"integer": {"from": 0, "to": 999_999, "width": 1}}
    seal(forged.release, json.dumps(found))
    with bounded():
        code, output = READERS["verify"](forged)
    assert code
    assert "the spec in the certificate" in output
    refused(forged, ["query", "unverified", "report"], CERTIFICATE)


@pytest.mark.parametrize("value", ['"1/0"', "[]", "{}", "null", "true", '"x"', "-1"])
@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_a_value_of_another_kind_is_no_number(
    agency: Forged, tmp_path: Path, field: tuple[str, ...], value: str
) -> None:
    forged = copied(agency, tmp_path)
    with_value(field, value)(forged.release)
    refused(forged, ["verify", "query", "report"], CERTIFICATE)
    with bounded():
        _, output = READERS["unverified"](forged)
    assert "workspace" not in output


@pytest.mark.parametrize(
    "name", ["spec", "tables", "files", "privacy", "ledger", "measurements", "confidence"]
)
def test_a_certificate_lacks_a_part(agency: Forged, tmp_path: Path, name: str) -> None:
    forged = copied(agency, tmp_path)
    without(name)(forged.release)
    refused(forged, ["verify", "query", "report"], CERTIFICATE)
    with bounded():
        _, output = READERS["unverified"](forged)
    assert "workspace" not in output


def many_rows(path: Path, rows: int) -> None:
    """Write a short Parquet file of one value in every row, with the columns of another."""
    names, part = pq.read_schema(path).names, 1 << 20
    zeros = pa.table({name: pa.array([0] * part) for name in names})
    with pq.ParquetWriter(path, zeros.schema) as writer:
        for _ in range(rows // part):
            writer.write_table(zeros)


def wide_page(path: Path) -> None:
    """Write as many rows as there were, with a text of which each is gigabytes of nothing."""
    table = pq.read_table(path)
    text = pa.array(["0" * (200 << 20)] * 2).dictionary_encode()
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), text.dictionary)
    pq.write_table(table.set_column(0, "level", rows), path, compression="zstd")


@pytest.mark.parametrize("rows", [1 << 22, pytest.param(143 << 20, marks=pytest.mark.audit)])
def test_more_rows_than_the_spec_declares(agency: Forged, tmp_path: Path, rows: int) -> None:
    forged = copied(agency, tmp_path)
    many_rows(forged.release / TABLE, rows)
    seal(forged.release)
    refused(forged, ["verify", "from tables", "report", "prior"], TABLE)


@pytest.mark.audit
def test_a_text_that_fills_the_memory(agency: Forged, tmp_path: Path) -> None:
    forged = copied(agency, tmp_path)
    wide_page(forged.release / TABLE)
    seal(forged.release)
    refused(forged, ["verify", "prior"], TABLE)


def test_a_list_in_place_of_numbers(agency: Forged, tmp_path: Path) -> None:
    """A row may hold a list of any length."""
    forged = copied(agency, tmp_path)
    path = forged.release / TABLE
    table = pq.read_table(path)
    lists = pa.array([[0, 1]] * table.num_rows)
    pq.write_table(table.set_column(table.schema.get_field_index("count"), "count", lists), path)
    seal(forged.release)
    refused(forged, ["verify", "from tables", "report", "prior"], TABLE)


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder"])
def test_something_else_in_place_of_the_pointer(agency: Forged, tmp_path: Path, kind: str) -> None:
    forged = copied(agency, tmp_path)
    current = forged.release.parent / "current"
    instead("current", ODD[kind])(current.parent)
    for words in (("verify", current), ("query", current, "count by sex")):
        with bounded():
            code, output = command(*words)
        assert code
        assert CERTIFICATE in output
        assert "workspace" not in output


def test_a_signed_statement_that_is_a_link_is_not_copied_to_the_web(agency: Forged, tmp_path: Path) -> None:
    forged = copied(agency, tmp_path)
    statement = "statement.dsse.json"
    instead(statement, ODD["link to a file"])(forged.release)
    refused(forged, ["verify", "query", "site", "site, copied"], statement)
    assert not list((tmp_path / "site").rglob(statement))


def test_an_index_names_a_file_elsewhere(agency: Forged, tmp_path: Path) -> None:
    forged = copied(agency, tmp_path)
    shutil.copyfile(forged.release / MEASUREMENT, tmp_path / "secret.parquet")
    path = forged.release / INDEX
    name = MEASUREMENT.partition("/")[2]
    path.write_text(path.read_text().replace(name, str(tmp_path / "secret.parquet")))
    seal(forged.release)
    refused(forged, ["verify", "query", "unverified", "report"], "measurement")


def test_a_page_says_what_it_was_compared_with(agency: Forged, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, output = command("report", agency.later, "--last", agency.release, "--out", page)
    assert not code, output
    head, _, _ = page.read_text().partition("<main")
    assert "not compared with the agency&#39;s signature and the ledger" in head
    assert f"tabularium verify {agency.later.name} --key agency.pub.pem --export books.txt" in head
    published, _, _ = (agency.later / "report.html").read_text().partition("<main")
    assert "before it was signed" in published
    assert "was not compared" not in published


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (("account", "name"), '"other"'),
        (("created",), '"yesterday"'),
        (("transcript", 0, "scale"), '"1/1000"'),
        (("spec", "columns", "sex", "categories", 1, "label"), '"women"'),
    ],
    ids=["account", "time", "scale", "domain"],
)
def test_no_page_of_a_certificate_that_contradicts_itself(
    agency: Forged, tmp_path: Path, steps: tuple[str | int, ...], value: str
) -> None:
    forged = copied(agency, tmp_path)
    with_value(steps, value)(forged.release)
    refused(forged, ["report", "report, since last", "query"], CERTIFICATE)
    assert steps == ("created",) or "does not fit the rest of the certificate" in READERS["site"](forged)[1]
