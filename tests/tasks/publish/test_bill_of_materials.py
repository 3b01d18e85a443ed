"""The bill of materials of a release."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tabularium.tasks.publish.certificate import software
from tabularium.tasks.publish.certificate.software import bill_of_materials, of_this_installation
from tests.certificates import made_up

TOLD = made_up(release_id="r1", created="2026-03-01T12:00:00+00:00")


@pytest.fixture(scope="module")
def written() -> bytes:
    return bill_of_materials(Path(), TOLD, None)


@pytest.fixture(scope="module")
def bom(written: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written)
    return found


def test_it_is_cyclonedx(written: bytes) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(written.decode()) is None
    broken = written.replace(b'"library"', b'"librarian"', 1)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(broken.decode()) is not None


def test_the_same_release_has_the_same_bill(written: bytes) -> None:
    assert bill_of_materials(Path("other"), TOLD.model_copy(), None) == written
    other = bill_of_materials(Path(), made_up(release_id="r2"), None)
    assert json.loads(other)["serialNumber"] != json.loads(written)["serialNumber"]


def test_what_ran_is_listed_with_its_version(bom: dict[str, Any]) -> None:
    versions = {each["name"]: each["version"] for each in bom["components"]}
    assert versions.pop("CPython") == platform.python_version()
    for name in ("numpy", "pyarrow", "prefect", "duckdb", "cryptography", "dp-accounting", "ibis-framework"):
        assert versions[name] == metadata.version(name)
    assert {name: metadata.version(name) for name in versions} == versions
    assert bom["metadata"]["component"]["name"] == "tabularium-dp"
    assert bom["metadata"]["timestamp"] == TOLD.created
    by_name = {each["name"]: each for each in bom["components"]}
    assert by_name["numpy"]["purl"] == f"pkg:pypi/numpy@{versions['numpy']}"


def test_what_only_an_extra_needs_is_followed(bom: dict[str, Any]) -> None:
    """ibis-framework asks for sqlglot under its duckdb extra, which Tabularium's requirement names."""
    needs = {each["ref"].partition("@")[0]: each.get("dependsOn", []) for each in bom["dependencies"]}
    assert any("pkg:pypi/sqlglot@" in ref for ref in needs["pkg:pypi/ibis-framework"])
    assert "python" in needs["pkg:pypi/tabularium-dp"]


def test_what_lies_beside_is_not_listed(bom: dict[str, Any]) -> None:
    names = {each["name"] for each in bom["components"]}
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "sdmx1"}


def test_licences_stand_where_the_metadata_have_them(bom: dict[str, Any]) -> None:
    licences = {each["name"]: each.get("licenses") for each in bom["components"]}
    assert licences["packaging"] == [{"expression": "Apache-2.0 OR BSD-2-Clause"}]
    assert sum(found is not None for found in licences.values()) > 0.9 * len(licences)


def test_a_bill_is_kept_for_the_next_process_and_made_again_where_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = of_this_installation()
    monkeypatch.setattr(software, "_MADE", {})
    assert of_this_installation(tmp_path) == made
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(software, "_MADE", {})
        patch.setattr(software, "_make", None)
        assert of_this_installation(tmp_path) == made
    for damaged in (b"", whole[:-9], b"[]", b"[{}, []]", b'[{"metadata": 3}, []]'):
        kept.write_bytes(damaged)
        monkeypatch.setattr(software, "_MADE", {})
        assert of_this_installation(tmp_path) == made
        assert kept.read_bytes() == whole


def test_another_interpreter_or_product_has_another_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("python_implementation", "Other"), ("python_version", "3.99.0")):
        monkeypatch.setattr(software, "_MADE", {})
        of_this_installation(tmp_path)
        monkeypatch.setattr(software.platform, name, lambda value=value: value)
    other = tmp_path / "software.py"
    other.write_text("# another version of this file\n")
    monkeypatch.setattr(software, "_MADE", {})
    of_this_installation(tmp_path)
    monkeypatch.setattr(software, "__file__", str(other))
    monkeypatch.setattr(software, "_MADE", {})
    of_this_installation(tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 4
