"""Addresses in object stores: what is taken, what is refused, and that no network is asked and no key is told."""

from __future__ import annotations

import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.validations.release_spec.load import examine, load_spec
from tabularium.validations.release_spec.problems import format_problems
from tabularium.validations.release_spec.source import FileSource, is_in_store
from tests.sizes import runs
from tests.validations.release_spec.test_engine_checks import written

TAKEN = [
    *(
        "s3://bucket/people.csv",
        "s3://bucket/people-2026/*.parquet",
        "s3a://b/p-{period}/**/*.csv",
        "gs://b/x.csv",
    ),
    *("abfs://container/x.parquet", "abfs://container@account.dfs.core.windows.net/x.parquet", "gcs://b/x/"),
    *("s3://b/part-?.parquet", "s3://b/a@b:c/[0-9].csv", "s3://b/sex=F/x.csv", "oss://b/x.csv"),
    "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/agency/x.csv",
]
SECRET = st.text("ABCDEFGHabcdefgh0123456789/+", min_size=9, max_size=40)
WITH_SECRET = [
    *(
        "s3://{id}:{key}@bucket/x.csv",
        "s3://{id}@bucket/x.csv",
        "s3://{id}:{key}@/x.csv",
        "gs://{id}@b/*.csv",
    ),
    *(
        "s3://b/x.csv?token={key}",
        "s3://b/x.csv?a=1&X-Amz-Signature={key}",
        "abfs://c/x.csv?sv=2026&sig={key}",
        "abfs://c/x.csv;AccountKey={key}",
        "s3://b/x.csv#token={key}",
        "s3://b/x.csv%3FaccessKey%3D{key}",
    ),
    *(
        "abfs://{id}:{key}@account/x.csv",
        "https://{id}:{key}@host/x.csv",
        "hdfs://{id}:{key}@names:9000/x.parquet",
    ),
]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at whatever asks a network, or loads a package that could."""

    def refuse(*args: Any) -> None:
        raise AssertionError("a network was asked")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for package in ("s3fs", "aiobotocore", "botocore", "gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("address", TAKEN)
def test_an_address_is_taken_without_a_network(address: str, tmp_path: Path, no_network: None) -> None:
    source = f"path: '{address}', format: csv"
    loaded = load_spec(written(tmp_path, source))
    plain = load_spec(written(tmp_path, "path: people.csv"), source=address)
    assert loaded.source_uri == plain.source_uri == address.replace("{period}", "2026")
    assert isinstance(plain.spec.source, FileSource)
    assert load_spec(written(tmp_path, source), period="2027").source_uri == address.replace(
        "{period}", "2027"
    )
    here = load_spec(written(tmp_path, "path: people.csv, format: csv"))
    assert (loaded.digest, loaded.published_spec) == (here.digest, here.published_spec)


def test_an_address_takes_the_place_of_a_database(tmp_path: Path) -> None:
    loaded = load_spec(written(tmp_path, "url: 'sqlite:///a.db', table: people"), source="s3://bucket/x.csv")
    assert (loaded.spec.source.engine, loaded.source_uri) == ("duckdb", "s3://bucket/x.csv")
    (problem,) = examine(written(tmp_path, "path: a.csv"), source="s3://bucket").problems
    assert (problem.field, problem.what) == ("--source", "names no object")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        *(
            (f"{scheme}://host/x.csv", "is a URL")
            for scheme in ("http", "https", "ftp", "sftp", "hdfs", "nobody", "S3")
        ),
        *((f"{scheme}://x.csv", "is a URL") for scheme in ("file", "local", "memory", "zip", "data")),
        *(
            (f"{scheme}::s3://b/x.csv", "is a URL")
            for scheme in ("simplecache", "filecache", "blockcache", "zip")
        ),
        ("s3://b/a.zip::zip://x.csv", "joins file systems"),
        *((f"s3://{rest}", "names no object") for rest in ("x.csv", "/x.csv", "b*/x.csv", "b/", "b//")),
        ("s3://bucket/p**/x.csv", "stands for whole folders"),
        ("s3://bucket/x.data", "the ending does not say"),
    ],
)
def test_what_is_no_address_is_refused(address: str, said: str, tmp_path: Path, no_network: None) -> None:
    (problem,) = examine(written(tmp_path, f"path: '{address}'")).problems
    assert problem.field == "source.path"
    assert said in problem.what
    assert problem.hint


def test_public_look_ups_are_files_and_those_of_the_unit_may_lie_in_a_store(
    tmp_path: Path, no_network: None
) -> None:
    column = "columns:\n  home: {from: homes.kind, categories: [a]}\n"

    def problems(look: str) -> list[str]:
        path = written(tmp_path, "path: a.csv", f"lookups:\n  homes: {{path: 's3://b/homes.csv', {look}}}\n")
        path.write_text(path.read_text().replace("columns:\n", column).replace("[sex]", "[sex, home]"))
        return [problem.what for problem in examine(path).problems]

    assert problems("unit: person") == []
    assert problems("key: home, public: everybody knows") == ["is a URL"]


@settings(max_examples=runs(4, 50))
@given(key=SECRET)
@pytest.mark.parametrize("form", WITH_SECRET)
def test_credentials_in_an_address_are_refused_and_told_to_nobody(form: str, key: str) -> None:
    """In a source, of Spark too, an option or a look-up; whatever else is wrong."""
    address = form.format(id="AKIAEXAMPLE", key=key)
    look = f"lookups:\n  homes: {{path: '{address}', key: home, public: everybody}}\n"
    with tempfile.TemporaryDirectory() as folder:
        for source, more, option in (
            (f"path: '{address}'", "", None),
            (f"path: '{address}', format: parquet, engine: spark, master: local", "", None),
            (f"path: '{address}', engine: nothing, delimiter: ab", "", None),
            ("path: a.csv", look, None),
            ("path: a.csv", "", address),
        ):
            problems = examine(written(Path(folder), source, more), source=option).problems
            text = "\n".join(format_problems(problems))
            assert problems
            assert key not in text
            assert "AKIAEXAMPLE" not in text
            # Of --source all that is in no store is a database, whose URL would not read with a / in a password.
            if "nothing" not in source and (option is None or is_in_store(address)):
                assert any("a password or a key in the" in problem.what for problem in problems), text


def test_stores_are_told_from_what_fsspec_has_itself() -> None:
    assert is_in_store("s3://b/x")
    assert not any(
        is_in_store(f"{scheme}://x")
        for scheme in ("postgresql", "sqlite", "duckdb", "trino", "github", "asynclocal")
    )
