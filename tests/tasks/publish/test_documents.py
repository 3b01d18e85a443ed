"""Documents: made after the tables, named by the certificate, and no way in for a forger."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import InternalError, PublicationError
from tabularium.tasks.publish import documents
from tabularium.validations.certificate import Certificate
from tests.flows.release.scene import publish, publish_with, states, write_scene


def about(aside: Path, told: Certificate, last: Path | None) -> bytes:
    """Say what a document is given: the tables that lie there, the certificate, and the last period."""
    lie = sorted(path.name for path in aside.glob("*.csv"))
    before = None if last is None else json.loads((last / "certificate.json").read_bytes())["period"]
    return json.dumps({"files": lie, "told": told.document(), "before": before}).encode()


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "DOCUMENTS", {"about.json": about})


@pytest.mark.usefixtures("documented")
def test_a_document_sees_the_tables_the_certificate_and_the_last_period(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home, period="2024")
    publish(spec, home, period="2025")
    folder = Path(publish(spec, home, period="2026").folder)
    publish(spec, home, period="2023")
    raw = (folder / "about.json").read_bytes()
    found, certificate = json.loads(raw), json.loads((folder / "certificate.json").read_bytes())
    assert certificate["files"].pop("about.json") == hashlib.sha256(raw).hexdigest()
    assert found["told"] == certificate
    assert found["files"] == ["age_sex.csv", "area_age_sex.csv"]
    assert found["before"] == "2025"


@pytest.mark.usefixtures("documented")
def test_a_last_release_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home, period="2024")
    damaged = Path(publish(spec, home, period="2025").folder) / "age_sex.csv"
    damaged.chmod(0o644)
    damaged.write_text(damaged.read_text() + "\n")
    folder = Path(publish(spec, home, period="2026").folder)
    assert json.loads((folder / "about.json").read_bytes())["before"] == "2024"


@pytest.mark.usefixtures("documented")
def test_a_document_that_was_altered_before_the_charge_was_closed_is_no_part_of_the_release(
    tmp_path: Path,
) -> None:
    spec, home = write_scene(tmp_path)

    def die() -> None:
        raise OSError("a crash")

    with pytest.raises(InternalError):
        publish_with(die, before="close the charge", spec=spec, home=home)
    assert states(home) == ["measured"]
    (certificate,) = tmp_path.glob("releases/small/2026/*[0-9a-f]/certificate.json")
    document, found = certificate.parent / "about.json", json.loads(certificate.read_bytes())
    document.chmod(0o644)
    document.write_bytes(document.read_bytes() + b"\n")
    found["files"]["about.json"] = hashlib.sha256(document.read_bytes()).hexdigest()
    certificate.chmod(0o644)
    certificate.write_text(json.dumps(found))
    with pytest.raises(PublicationError, match=r"about\.json differs"):
        publish(spec, home)
    assert states(home) == ["measured"]


@pytest.mark.usefixtures("documented")
def test_a_run_that_died_before_the_charge_was_closed_is_adopted(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)

    def die() -> None:
        raise OSError("a crash")

    with pytest.raises(InternalError):
        publish_with(die, before="close the charge", spec=spec, home=home)
    (certificate,) = tmp_path.glob("releases/small/2026/*[0-9a-f]/certificate.json")
    before = certificate.read_bytes()
    assert publish(spec, home).status == "published"
    assert certificate.read_bytes() == before
