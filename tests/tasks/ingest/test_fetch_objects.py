"""Sources in an object store: the same input as the same files at home, or one line that says why not."""

from __future__ import annotations

import io
import logging
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tabularium.mechanisms.errors import DataRefused, InputError, InputMissing
from tabularium.tasks.ingest import fetch_objects
from tabularium.tasks.ingest.fetch_objects import _Asked
from tabularium.tasks.ingest.find_files import find_files
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import first_row, opened
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.source import Files
from tests.tasks import front
from tests.tasks.front import SENTINEL, ingest

pytestmark = pytest.mark.xdist_group("object stores")
CHANGED = "changed while it was read"
KEYS = [
    *("people.csv", "old/people.csv", "2026/a.csv", "2026/b.csv", "2026/deep/a.csv", "2026/deep/er/c.csv"),
    *(
        "2026/.hidden.csv",
        "2026/_SUCCESS",
        "2026/_temporary/a.csv",
        "2026/notes.md",
        "2026/old.csv",
        "2026-old/a.csv",
    ),
    "x[1].csv",
]
IGNORE = ("_temporary", "2026/old.csv", "old.csv")
PATTERNS = [
    *("people.csv", "x[1].csv", "2026", "2026/", "2026/*.csv", "2026/*", "2026/?.csv", "2026/[!a].csv"),
    *("2026/[ab].csv", "**/a.csv", "2026/**/*.csv", "2026/**", "20*/a.csv", "*/a.csv", "2026/de*/*.csv"),
    *("2026/_temporary/*.csv", "2026/.hidden.csv", "2026/*.md", "20", "2026/a", "2027/*.csv", "x[2].csv"),
]


def put(store: Any, bucket: str, path: str, content: bytes) -> None:
    store.pipe_file(f"{bucket}/{path}", content)


def people(store: Any, bucket: str, name: str = "people.csv") -> str:
    """The small product's records in the store, under an address."""
    put(store, bucket, f"in/{name}", front.csv_text().encode())
    return f"s3://{bucket}/in/{name}"


def total(loaded: Loaded, scratch: Path) -> tuple[Any, ...]:
    """What is counted of a source, after it was ingested."""
    handle = ingest_source(loaded, front.SECRET, scratch)
    with opened(loaded, handle, scratch) as source:
        ages = source.table[source.raw["age"]].cast("int64")
        row = first_row(source.table.aggregate(rows=source.table.count(), ages=ages.sum()), source.engine)
    return handle.digest, handle.kind, len(handle.files), row["rows"], row["ages"]


def found(folder: Path, place: str) -> str | list[bytes]:
    """What lies in the files that are found there; or the kind of error."""
    try:
        if "://" in place:
            files = Files(format="csv", ignore=IGNORE)
            place = str(fetch_objects.fetch_objects(place, files, folder / "objects"))
        return sorted(path.read_bytes() for path in find_files(place, "csv", ignore=IGNORE).paths)
    except InputError as error:
        return type(error).__name__


# --- the same input --------------------------------------------------------------------------------------


def test_a_pattern_finds_what_it_finds_among_files(tmp_path: Path, store: Any, bucket: str) -> None:
    for number, key in enumerate(KEYS):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"%d" % number)
        put(store, bucket, f"in/{key}", b"%d" % number)
    put(store, bucket, "in/2026/empty/", b"")  # by which some tools mark a folder
    here = {pattern: found(tmp_path, str(tmp_path / pattern)) for pattern in PATTERNS}
    assert {pattern: found(tmp_path, f"s3://{bucket}/in/{pattern}") for pattern in PATTERNS} == here
    assert {len(each) for each in here.values() if isinstance(each, list)} >= {1, 2, 3}
    assert "InputMissing" in here.values()


@pytest.mark.parametrize(
    "name", ["people.csv", "people.csv.gz", "people.parquet", "parts-{period}", "p-{period}/*/*"]
)
def test_digest_and_counts_are_those_of_files(name: str, tmp_path: Path, store: Any, bucket: str) -> None:
    local, options = tmp_path / "local", {"source": ", format: parquet"} if "{" in name else {}
    if "{" in name:
        header = front.HEADER[:3]
        for sex in "fm":
            rows = [row[:3] for row in front.ROWS if row[3] == sex]
            for top in ("parts-2026", "p-2026"):
                front.write_parquet(local / top / f"sex={sex}" / "part.parquet", rows, header)
    else:
        (front.write_parquet if name.endswith("parquet") else front.write_csv)(local / name)
    for path in local.rglob("*.*"):
        put(store, bucket, str(path.relative_to(local)), path.read_bytes())
    (tmp_path / "scratch").mkdir(mode=0o700)
    here = total(front.spec(local, name, **options), tmp_path / "scratch")
    there = total(front.spec(tmp_path / "there", f"s3://{bucket}/{name}", **options), tmp_path / "scratch")
    assert here == there
    assert here[3:] == (6, 263)


def test_look_ups_of_the_unit_are_fetched_too(tmp_path: Path, store: Any, bucket: str) -> None:
    def edited(place: str, text: str) -> str:
        text = text.replace("area: {hierarchy", "area: {from: homes.area, hierarchy")
        return text + f'lookups: {{homes: {{path: "{place}", unit: person, key: home}}}}\n'

    header = ("person", "home", "age", "sex")
    front.write_csv(tmp_path / "people.csv", [("p1", "h1", "3", "f")], header)
    homes = front.write_csv(tmp_path / "homes.csv", [("p1", "h1", "A1")], ("person", "home", "area"))
    put(store, bucket, "homes.csv", homes.read_bytes())
    digests = []
    for place in ("homes.csv", f"s3://{bucket}/homes.csv"):
        edit: Any = partial(edited, place)
        digests.append(ingest(tmp_path, unit="{entity: person, column: person}", edit=edit).digest)
    assert digests[0] == digests[1]


def test_names_that_no_folder_could_hold_are_told_apart(tmp_path: Path, store: Any, bucket: str) -> None:
    for number, key in enumerate(("a.csv", "a.csv/b.csv", "c//a.csv", "c/a.csv", f"{'long' * 60}.csv")):
        put(store, bucket, f"in/{key}", front.csv_text([(f"p{number}", "A1", "3", "f")]).encode())
    copies = [Path(file.name) for file in ingest(tmp_path, f"s3://{bucket}/in", source=", format: csv").files]
    assert len({copy.read_bytes() for copy in copies}) == 5
    assert all(copy.resolve().is_relative_to(tmp_path / "scratch" / "source.objects") for copy in copies)


def test_a_slash_at_the_end_names_a_folder_and_no_object_beside_it(
    tmp_path: Path, store: Any, bucket: str
) -> None:
    put(store, bucket, "in", b"the object\n")
    put(store, bucket, "in/a.csv", b"below it\n")
    assert found(tmp_path, f"s3://{bucket}/in/") == [b"below it\n"]
    assert found(tmp_path, f"s3://{bucket}/in") == [b"the object\n"]


@pytest.mark.parametrize("key", [f"{'x' * 300}.csv", f"sex={'f' * 300}/a.csv"])
def test_a_name_that_no_file_can_have_is_refused_before_anything_is_copied(
    key: str, tmp_path: Path, store: Any, bucket: str
) -> None:
    put(store, bucket, f"in/{key}", b"a\n")
    with pytest.raises(InputError, match="a name that no file can have"):
        fetch_objects.fetch_objects(f"s3://{bucket}/in", Files(format="csv"), tmp_path / "objects")
    assert not (tmp_path / "objects").exists()


def test_copies_are_closed_to_others_and_made_anew(tmp_path: Path, store: Any, bucket: str) -> None:
    address = people(store, bucket)
    for _ in range(2):
        (copy,) = (Path(file.name) for file in ingest(tmp_path, address).files)
        assert copy.is_relative_to(tmp_path / "scratch" / "source.objects")
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        copy.with_name("left.csv").touch()
    assert not (tmp_path / "scratch" / "source.objects").stat().st_mode & 0o077


# --- changed under the run -------------------------------------------------------------------------------


def _overwritten(store: Any, folder: str) -> None:
    store.pipe_file(f"{folder}/a.csv", front.csv_text(front.ROWS[::-1]).encode())


CHANGES: list[Callable[[Any, str], None]] = [
    _overwritten,
    lambda store, folder: store.rm_file(f"{folder}/a.csv"),
    lambda store, folder: store.pipe_file(f"{folder}/c.csv", front.csv_text().encode()),
    lambda store, folder: store.rm(folder, recursive=True),
]


@pytest.mark.parametrize(
    ("change", "at"), [(CHANGES[0], 0), (CHANGES[0], 2), *((each, 4) for each in CHANGES)]
)
def test_a_change_meanwhile_is_refused(
    change: Any, at: int, tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first object is opened, while it is read, and after its last byte."""
    for name in "ab":
        people(store, bucket, f"{name}.csv")
    answer, asked = _Asked.answer, []

    def changing(self: _Asked, work: Any) -> Any:
        asked.append(work)
        if len(asked) == 3 + at:  # opening the store and listing come first
            change(store, f"{bucket}/in")
        return answer(self, work)

    monkeypatch.setattr(_Asked, "answer", changing)
    with pytest.raises(InputError, match=CHANGED):
        ingest(tmp_path, f"s3://{bucket}/in/*.csv")


def test_no_copy_is_half_of_one_object_and_half_of_another(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overwritten while it is read and put back before it is listed again: the store itself refuses the rest."""
    monkeypatch.setattr("s3fs.S3FileSystem.default_block_size", 1 << 16)
    monkeypatch.setattr(fetch_objects, "_BLOCK", 1 << 16)
    first = front.csv_text(front.ROWS * 3000).encode()
    put(store, bucket, "people.csv", first)
    answer, asked = _Asked.answer, []

    def changing(self: _Asked, work: Any) -> Any:
        asked.append(work)
        if len(asked) == 5:
            put(store, bucket, "people.csv", front.csv_text(front.ROWS[::-1] * 3000).encode())
        try:
            return answer(self, work)
        finally:
            if len(asked) > 5:
                put(store, bucket, "people.csv", first)

    monkeypatch.setattr(_Asked, "answer", changing)
    with pytest.raises(InputError, match=r"changed while|does not answer"):
        ingest(tmp_path, f"s3://{bucket}/people.csv")
    assert len(asked) > 6


def test_a_store_that_tells_of_no_change_is_refused(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_objects, "_SIGNS", ("generation",))
    with pytest.raises(InputError, match="does not tell when an object changes"):
        ingest(tmp_path, people(store, bucket))


# --- errors of one line ----------------------------------------------------------------------------------


def test_what_is_not_there_is_waited_for(tmp_path: Path, store: Any, bucket: str) -> None:
    people(store, bucket)
    for path in (
        f"{bucket}/in/nobody.csv",
        f"{bucket}/in/*.parquet",
        f"{bucket}-gone/in/*.csv",
        f"{bucket}-gone/a.csv",
    ):
        with pytest.raises(InputMissing) as error:
            ingest(tmp_path, f"s3://{path}")
        assert str(error.value).startswith(f"source s3://{path}: there is no such object")


def test_without_credentials_there_is_no_access(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = people(store, bucket)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    type(store).clear_instance_cache()
    try:
        with pytest.raises(InputError, match=r"gives no access; see that the environment holds"):
            ingest(tmp_path, address)
    finally:
        type(store).clear_instance_cache()


ANSWERS = [
    (PermissionError, InputError, "the store gives no access"),
    (ConnectionError, InputMissing, "the store does not answer (ConnectionError)"),
    (OSError, InputMissing, "the store does not answer (OSError)"),
]


@pytest.mark.parametrize(("at", "raised", "kind", "said"), [(at, *ANSWERS[at % 3]) for at in range(6)])
def test_what_a_package_says_goes_nowhere(
    at: int, raised: Any, kind: Any, said: str, tmp_path: Path, store: Any, bucket: str, monkeypatch: Any
) -> None:
    """Opening the store, listing, opening the object, reading to its end and listing again: whatever fails."""
    address, answer, asked = people(store, bucket), _Asked.answer, []

    def failing(self: _Asked, work: Any) -> Any:
        def fail() -> None:
            raise raised(5, f"sent {SENTINEL}")

        asked.append(work)
        return answer(self, fail if len(asked) == at + 1 else work)

    monkeypatch.setattr(_Asked, "answer", failing)
    with pytest.raises(kind) as error:
        ingest(tmp_path, address)
    assert said in str(error.value)
    assert SENTINEL not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


@pytest.mark.parametrize(
    ("module", "address", "command"),
    [
        ("s3fs", "s3://bucket/a.csv", 'pip install "tabularium-dp[s3]"'),
        ("gcsfs", "gs://bucket/a.csv", "pip install gcsfs"),
        ("adlfs", "abfs://container@account.dfs.core.windows.net/a.csv", "pip install adlfs"),
    ],
)
def test_a_missing_package_is_named(
    module: str, address: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(InputError) as error:
        ingest(tmp_path, address)
    assert str(error.value) == f"source {address}: the package {module} is missing; {command}"


def test_a_full_disk_is_told_before_anything_is_fetched(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabularium.tasks.arrival.inboxes._SPARE_BYTES", 1 << 60)
    with pytest.raises(DataRefused, match="the source does not fit"):  # a flow tells it at home alone
        ingest(tmp_path, people(store, bucket))
    assert not list((tmp_path / "scratch" / "source.objects").iterdir())


# --- what is told ----------------------------------------------------------------------------------------


def test_a_disk_that_fills_meanwhile_is_told_at_home_alone(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, usual = people(store, bucket), os.open

    def to_a_full_disk(path: Any, flags: int, *rest: Any) -> int:
        return usual("/dev/full", os.O_WRONLY) if "objects" in str(path) else usual(path, flags, *rest)

    monkeypatch.setattr(fetch_objects.os, "open", to_a_full_disk)
    with pytest.raises(DataRefused, match="does not fit on its disk"):
        fetch_objects.fetch_objects(address, None, tmp_path / "objects")


def test_how_far_it_is_is_told_as_a_share(
    tmp_path: Path, store: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listener(NullReporter):
        def fetched(self, percent: int) -> None:
            told.append(percent)

    told: list[int] = []
    people(store, bucket, "a.csv")
    address = people(store, bucket, "b.csv").replace("b.csv", "*.csv")
    with reporting_to(Listener()):
        ingest(tmp_path, address)
        assert told == []  # it took less than a second
        monkeypatch.setattr(fetch_objects, "_SECONDS", -1.0)
        ingest(tmp_path, address)
    assert told == [50, 100]


def test_no_log_has_the_key_or_the_records(tmp_path: Path, store: Any, bucket: str) -> None:
    """Not even where every library says all that it has to say."""
    put(store, bucket, "people.csv", front.csv_text([(SENTINEL, "A1", "3", "f")]).encode())
    heard = io.StringIO()
    handler, root = logging.StreamHandler(heard), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", f"key{SENTINEL}")
        type(store).clear_instance_cache()
        try:
            text = front.plain(ingest(tmp_path, f"s3://{bucket}/people.csv"))
        finally:
            type(store).clear_instance_cache()
            root.setLevel(level)
            root.removeHandler(handler)
    assert bucket in heard.getvalue()  # it was listened to
    assert SENTINEL not in heard.getvalue()
    assert SENTINEL not in text
