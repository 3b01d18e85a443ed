"""Manifests: read strictly, refused in words that quote nothing."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.tasks.arrival.manifest import DropRefused, NamedFile, read_manifest
from tests.tasks.arrival.drops import manifest

SECRET = "Zweckverband7319"


def test_a_manifest_is_read() -> None:
    found = read_manifest(
        json.dumps(manifest({"b.csv": b"x", "a-2=1.parquet": b""}, rows=1, note="n")).encode()
    )
    assert (found.product, found.period) == ("small", "2026")
    assert [(file.name, file.size) for file in found.files] == [("b.csv", 1), ("a-2=1.parquet", 0)]
    assert isinstance(found.files[0], NamedFile)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_manifest_of_windows_is_read(encoding: str) -> None:
    data = manifest(note="übergeben")
    data["files"][0]["sha256"] = data["files"][0]["sha256"].upper()
    text = json.dumps(data, ensure_ascii=False).encode(encoding)
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    assert read_manifest(mark + text) == read_manifest(json.dumps(manifest()).encode())


def refusal(data: Any) -> str:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(DropRefused) as caught:
        read_manifest(text)
    line = str(caught.value)
    assert line.startswith("drop.json: ")
    assert "\n" not in line
    assert SECRET not in line
    return line


@pytest.mark.parametrize("place", ["product", "period", "rows", "note", "files", SECRET])
@pytest.mark.parametrize("value", [[SECRET], {SECRET: 1}, f"{SECRET} ", f"../{SECRET}"])
def test_what_is_wrong_is_never_quoted(place: str, value: Any) -> None:
    if place != "note" or not isinstance(value, str):
        refusal(manifest(**{place: value}))


@pytest.mark.parametrize("key", ["name", "size", "sha256"])
@pytest.mark.parametrize("value", [SECRET + "/x", f"{SECRET}\0", None, True, -1, [SECRET]])
def test_what_is_wrong_in_a_file_is_never_quoted(key: str, value: Any) -> None:
    data = manifest()
    data["files"][0][key] = value
    refusal(data)


def test_names_that_a_file_system_might_take_for_one_are_one() -> None:
    assert "twice" in refusal(manifest({"people.csv": b"1", "People.CSV": b"2"}))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_refused_in_one_line(text: bytes) -> None:
    refusal(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["product", "files", "rows"]), _JSON)
def test_any_other_value_is_refused_or_taken_as_it_is(key: str, value: Any) -> None:
    try:
        found = read_manifest(json.dumps(manifest(**{key: value})).encode())
    except DropRefused:
        return
    assert key == "rows" or getattr(found, key) == value
