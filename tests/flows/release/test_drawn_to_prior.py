"""A release that is drawn towards the last one, from its spec to its verification by a stranger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.ledger.keys import public_hex
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.verify.subject import Finding, Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.domains.known_marginals import FOLDER
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import publish, publish_with, write_scene


@dataclass(frozen=True)
class Years:
    """Two periods of a product, the second drawn towards the first."""

    spec: Path
    home: Home
    first: Path
    second: Path

    def copy(self, folder: Path) -> Path:
        """Copy the second release to where it may be damaged."""
        target = folder / "release"
        shutil.copytree(self.second, target)
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return target


def fine(folder: Path, definition: str) -> tuple[Path, Home]:
    """Write the small release with single years of age, which have cells enough to learn from."""
    spec, home = write_scene(folder, rows=3000, definition=definition)
    text, rules, after = spec.read_text().replace(", edges: [20, 65]", "").partition("rules:")
    one, _, _ = text.replace('share: "2/3"', 'share: "1"').partition("  - name: age_sex")
    spec.write_text(one + rules + after)
    return spec, home


def with_prior(spec: Path, release: str) -> None:
    """Draw the first table of a spec towards a release."""
    text = spec.read_text().replace(
        "  - name: area_age_sex\n", f"  - name: area_age_sex\n    prior: {release}\n"
    )
    spec.write_text(text)


@pytest.fixture(scope="module", params=["pure", pytest.param("zcdp", marks=pytest.mark.audit)])
def years(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Years]:
    folder = tmp_path_factory.mktemp("years")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 8)
        spec, home = fine(folder, request.param)
        first = Path(publish(spec, home).folder)
        with_prior(spec, first.name)
        yield Years(spec, home, first, Path(publish(spec, home, period="2027").folder))


def certificate_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / CERTIFICATE).read_bytes())
    return found


def not_checked(findings: list[Finding]) -> list[str]:
    return [f"{each.what}: {each.said}" for each in findings if each.outcome == "failed"]


def test_the_certificate_names_the_prior_and_what_becomes_of_changes(years: Years) -> None:
    told = certificate_of(years.second)["tables"]
    prior = told["area_age_sex"]["prior"]
    assert prior["release"] == years.first.name
    assert prior["sha256"] == certificate_of(years.first)["files"][prior["file"]]
    assert prior["cells"] == 600
    shown = [each["shown"] for each in prior["changes"]]
    assert all(0 <= each < 1.1 for each in shown)
    assert shown[0] < shown[-1]
    assert told["area_age_sex"]["margins"]["method"] == "prior"


def test_a_stranger_makes_it_again_from_the_folder_alone(years: Years, tmp_path: Path) -> None:
    alone = years.copy(tmp_path)
    books = tmp_path / "books.jsonl"
    with Ledger.connect(years.home.ledger_url) as ledger:
        export(ledger, books)
    findings = list(verify_release(Subject(alone, export=books)))
    assert not not_checked(findings)
    assert any(
        "follow from the noisy measurements" in each.what and each.outcome == "checked" for each in findings
    )


def test_a_prior_that_was_altered_is_found(years: Years, tmp_path: Path) -> None:
    """Also by whoever changes all digests of the release with it."""
    alone = years.copy(tmp_path)
    place = next((alone / FOLDER / years.first.name).glob("area_age_sex.*"))
    before = place.read_bytes()
    place.write_bytes(before[:-2])
    assert any("is not what it was" in each for each in not_checked(list(verify_release(Subject(alone)))))

    certificate = (
        (alone / CERTIFICATE)
        .read_text()
        .replace(
            certificate_of(alone)["files"][f"{FOLDER}/{years.first.name}/{place.name}"], digest_of(place)
        )
    )
    (alone / CERTIFICATE).write_text(certificate)
    assert any(
        "not what its certificate says" in each for each in not_checked(list(verify_release(Subject(alone))))
    )


def test_both_periods_are_paid_for(years: Years) -> None:
    with Ledger.connect(years.home.ledger_url) as books:
        assert books.balance("people") == Fraction(8)


def test_another_prior_is_another_release(years: Years) -> None:
    """Its digest is a part of the spec's."""
    before = load_spec(years.spec, period="2027")
    certificate = years.first / CERTIFICATE
    raw, mode = certificate.read_bytes(), certificate.stat().st_mode
    certificate.chmod(0o644)
    try:
        certificate.write_bytes(raw + b"\n")
        assert load_spec(years.spec, period="2027").digest != before.digest
        with pytest.raises(TabulariumError, match="has not published a release of this certificate"):
            publish(years.spec, years.home, period="2027")
    finally:
        certificate.write_bytes(raw)
        certificate.chmod(mode)
    with Ledger.connect(years.home.ledger_url) as books:
        assert books.balance("people") == Fraction(8)


def test_one_that_an_officer_withdraws_during_a_run_is_not_drawn_towards(years: Years) -> None:
    officer = Ed25519PrivateKey.generate()

    def withdraw() -> None:
        with Ledger.connect(years.home.ledger_url) as books:
            books.enrol_key(public_hex(officer), officer="A. Ro", by=officer)
            books.withdraw(years.first.name, reason="counted twice", by=officer)

    text = years.spec.read_text()
    years.spec.write_text(text.replace('period: "2026"', 'period: "2028"'))
    with pytest.raises(TabulariumError, match=r"counted twice; .* no noise was drawn.* ledger void"):
        publish_with(withdraw, before="measure", spec=years.spec, home=years.home)
    with Ledger.connect(years.home.ledger_url) as books:
        waiting = books.last_charges("people", 1)[0]
    assert (waiting.state, waiting.fence) == ("reserved", 0)
    # Asked again it reads nothing, nor does what was never reserved.
    for period, said in (("2028", f"void {waiting.release_id}"), ("2029", "nothing was charged")):
        years.spec.write_text(text.replace('period: "2026"', f'period: "{period}"'))
        with pytest.raises(TabulariumError, match=f"was withdrawn on .*: counted twice; .*{said}"):
            publish_with(pytest.fail, before="dry run", spec=years.spec, home=years.home)
    with Ledger.connect(years.home.ledger_url) as books:
        books.void(waiting.release_id, "prior withdrawn", by=officer)
        assert books.balance("people") == Fraction(8)


def test_who_verifies_is_told_that_the_prior_was_withdrawn_since(years: Years, tmp_path: Path) -> None:
    books = tmp_path / "books.jsonl"
    with Ledger.connect(years.home.ledger_url) as ledger:
        export(ledger, books)
    findings = list(verify_release(Subject(years.copy(tmp_path), export=books)))
    assert not not_checked(findings)
    (said,) = (each.said for each in findings if each.what == "it has published this very certificate")
    assert f"drawn towards release {years.first.name}, withdrawn since, in entry" in said
    assert said.endswith(": counted twice")
