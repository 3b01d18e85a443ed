"""Forged certificates: whatever is edited shows against the ledger; without one, what cannot show is listed."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Charge, Ledger
from tabularium.ledger.export import export
from tabularium.mechanisms.accounting.transcript import Primitive
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.validations.release_spec.load import spec_digest
from tabularium.validations.release_spec.model import ReleaseSpec
from tests.flows.release.scene import publish, write_scene
from tests.sizes import full, runs

RULES = (
    '[{rule: row_count, max: 100000, noisy: {share: "1/10"}}, {rule: range, column: age, min: 0, max: 99}, '
    '{rule: nulls, column: sex, at_most: "1%", severity: warn}]'
)
MORE = """
histograms: [{name: ages, of: age, share: "1/10", largest: 600}]
invariants: [{name: all, count: 600, reason: "registry"}]
"""
Steps = tuple[str | int, ...]

UNSEEN = {
    "release_id": "a name",
    "created": "the time; the ledger knows when it was published",
    "ledger.head.*": "the ledger alone has its head",
    "ledger.tally_charges[].number": "the ledger alone has the charges that were made for tallies",
    "ledger.tally_charges[].release_id": "the same",
    "tallies[].number": "what the noise decided, within the bounds of a rule",
    "invariants[].numbers": "how many lines its file has",
    "invariants[].compared": "how many of them tables show with noise of known variance",
    "measurements.digest": "of a file in the agency's store",
    "spec.*": "with its digest fixed up, where neither budget, tables, rules nor codes are touched",
    "transcript[].purpose*": "words after the name of the measurement",
    "tables.*": "what the noise decided: totals, margins, failed checks",
    "agreement.*": "what the noise decided",
    "postprocessing.version": "what another version did is that version's to say",
    "account.cap_per_*": "the ledger alone has the terms of the account",
    "account.reserved.*": "the ledger alone has the entry",
    "account.cumulative.*": "what other releases cost, and how many they are",
    "approval.*": "the ledger alone knows who approved the spec",
    "code.*": "what ran; with the same code at hand it can be compared",
    "security.workspace_kept": "whether an operator kept it",
    "files.*": "digests of files; with the folder at hand they are compared with the files",
    "software.*": "which versions were there",
}
"""Fields in which an edit is not seen without a ledger, and why."""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Charge, Path]:
    """A release, its charge, and an export of its ledger."""
    folder = tmp_path_factory.mktemp("forged")
    spec, home = write_scene(folder, rules=RULES)
    spec.write_text(spec.read_text() + MORE)
    release = Path(publish(spec, home).folder)
    with Ledger.connect(home.ledger_url) as books:
        export(books, folder / "books.txt")
        (charge,) = (each for each in books.charges("people") if each.release_id == release.name)
    return release, charge, folder / "books.txt"


def leaves(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """Every place in a certificate that holds a plain value or nothing."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for key, item in inner:
        found = True
        yield from leaves(item, (*steps, key))
    if not found:
        yield steps


def name_of(steps: Steps) -> str:
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def parent(document: Any, steps: Steps) -> Any:
    for step in steps[:-1]:
        document = document[step]
    return document


def other(value: Any, chance: random.Random) -> Any:
    """A value of the same kind that says something else."""
    if isinstance(value, bool | int | float):
        return not value if isinstance(value, bool) else value + chance.choice((-1, 1, 1000))
    if value is None or value in ([], {}):
        return "x"
    if value in get_args(Primitive):
        return "lattice_laplace"
    if re.fullmatch(r"\d+/\d+", value):
        return f"{int(value.partition('/')[0]) * 2 + 1}/{value.partition('/')[2]}"
    digits = [place for place, sign in enumerate(value) if sign in "0123456789abcdef"]
    if not digits:
        return value + "x"
    place = chance.choice(digits)
    return (
        value[:place]
        + chance.choice([sign for sign in "123456789" if sign != value[place]])
        + value[place + 1 :]
    )


def edits(certificate: Any, number: int) -> Iterator[tuple[str, Any]]:
    """Yield single edits, each name at least once, at full size each field: a change, a field gone, a field more."""
    chance, places = random.Random(14), list(leaves(certificate))
    if not full():
        places = list({name_of(steps): steps for steps in places}.values())
    for count in range(max(number, len(places))):
        steps = places[count] if count < len(places) else chance.choice(places)
        forged, kind = copy.deepcopy(certificate), "change" if count < len(places) else chance.choice(KINDS)
        holder, last = parent(forged, steps), steps[-1]
        if kind == "change":
            holder[last] = other(holder[last], chance)
        elif kind == "remove":
            del holder[last]
        elif isinstance(holder, dict):
            holder["more"] = "x"
        else:
            holder.append(holder[0])
        if steps[0] == "spec":
            _fix_up(forged)
        yield (name_of(steps) if kind == "change" else ""), forged


def _fix_up(forged: Any) -> None:
    """Put the digest of the edited spec in its place, as a forger would who has the program."""
    with contextlib.suppress(ValidationError):
        spec = ReleaseSpec.model_validate(forged["spec"])
        forged["spec_digest"] = spec_digest(spec, forged["code_lists"])


KINDS = ("change", "change", "change", "remove", "add")


def refused(path: Path, forged: Any, charge: Charge | None = None) -> bool:
    path.chmod(0o644)
    path.write_text(json.dumps(forged, indent=2, ensure_ascii=False) + "\n")
    try:
        verify_certificate(path, charge)
    except PublicationError:
        return True
    return False


@pytest.fixture
def beside(released: tuple[Path, Charge, Path], tmp_path: Path) -> Path:
    """A certificate to edit, with the code lists beside it."""
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "areas.csv").write_bytes((released[0] / "codes" / "areas.csv").read_bytes())
    path = tmp_path / "certificate.json"
    path.write_bytes((released[0] / "certificate.json").read_bytes())
    return path


def test_a_true_certificate_is_taken(released: tuple[Path, Charge, Path], beside: Path) -> None:
    release, charge, books = released
    assert verify_certificate(beside, charge) == verify_certificate(beside)
    done = verified(books, release / "certificate.json")
    assert done.exit_code == 0, done.output


def test_every_edit_is_found_against_the_ledger(released: tuple[Path, Charge, Path], beside: Path) -> None:
    certificate = json.loads(beside.read_text())
    for number, (name, forged) in enumerate(edits(certificate, runs(200, 1000))):
        assert refused(beside, forged, released[1]), (number, name)


def test_what_is_not_found_without_a_ledger_is_listed(
    released: tuple[Path, Charge, Path], beside: Path
) -> None:
    certificate, unseen = json.loads(beside.read_text()), set()
    for name, forged in edits(certificate, runs(1, 1000)):
        if name and not refused(beside, forged):
            unseen.add(name)
    listed = {each for each in unseen if any(_covers(pattern, each) for pattern in UNSEEN)}
    assert unseen == listed
    assert {pattern for pattern in UNSEEN if any(_covers(pattern, each) for each in unseen)} >= {
        pattern for pattern in UNSEEN if not pattern.endswith("*")
    }


def _covers(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def cheaper(certificate: Any) -> None:
    """Half of ε everywhere where the certificate says it, as who knows the program well."""
    text = json.dumps(certificate).replace('"epsilon": "1"', '"epsilon": "1/2"')
    certificate |= json.loads(text.replace('"amount": "1"', '"amount": "1/2"'))


def cheaper_spec(certificate: Any) -> None:
    cheaper(certificate)
    certificate["spec"]["privacy"]["budget"] = "1/2"
    spec = ReleaseSpec.model_validate(certificate["spec"])
    certificate["spec_digest"] = spec_digest(spec, certificate["code_lists"])


def amount(certificate: Any) -> None:
    certificate["ledger"]["amount"] = "1/2"


def scale(certificate: Any) -> None:
    certificate["transcript"][0] |= {"scale": "100/1", "scale_squared": "10000/1"}


def quiet_scale(certificate: Any) -> None:
    """A larger scale with the smaller loss that belongs to it."""
    event = certificate["transcript"][0]
    event |= {"scale": "100/1", "scale_squared": "10000/1", "loss": "1/100"}


def version(certificate: Any) -> None:
    certificate["software"]["numpy"] = "1.0.0"


def epsilon(certificate: Any) -> None:
    certificate["privacy"]["epsilon"] = "1/2"


def rule(certificate: Any) -> None:
    certificate["outside_the_guarantee"] = certificate["outside_the_guarantee"][:3]


FORGERIES: list[Callable[[Any], None]] = [
    *(epsilon, amount, scale, quiet_scale, version, cheaper, cheaper_spec, rule),
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forgeries_by_hand_are_named_by_the_command(
    released: tuple[Path, Charge, Path], beside: Path, forge: Callable[[Any], None]
) -> None:
    certificate = json.loads(beside.read_text())
    forge(certificate)
    beside.write_text(json.dumps(certificate, indent=2, ensure_ascii=False) + "\n")
    done = verified(released[2], beside)
    assert done.exit_code == 1, done.output
    if forge is version:  # nothing else speaks of it; a ledger is needed
        assert not refused(beside, certificate)
    else:
        assert refused(beside, certificate)


def test_a_count_with_its_digest_is_found(released: tuple[Path, Charge, Path], beside: Path) -> None:
    release, _, books = released
    table = (release / "age_sex.csv").read_bytes()
    changed = re.sub(rb"(\d+),(\d+)\n", rb"9\1,\2\n", table, count=1)
    assert changed != table
    certificate = json.loads(beside.read_text())
    certificate["files"]["age_sex.csv"] = hashlib.sha256(changed).hexdigest()
    beside.write_text(json.dumps(certificate, indent=2, ensure_ascii=False) + "\n")
    done = verified(books, beside)
    assert done.exit_code == 1
    assert "differs from the one the ledger knows" in " ".join(done.stderr.split())


def test_a_release_that_the_ledger_does_not_know(released: tuple[Path, Charge, Path], beside: Path) -> None:
    certificate = json.loads(beside.read_text())
    certificate["release_id"] = "0" * 32
    beside.write_text(json.dumps(certificate))
    done = verified(released[2], beside)
    assert done.exit_code == 1
    assert "names a release that the ledger does not know" in " ".join(done.stderr.split())


def test_no_ledger_is_restored_beside_a_forged_certificate(
    released: tuple[Path, Charge, Path], beside: Path, tmp_path: Path
) -> None:
    certificate = json.loads(beside.read_text())
    for forge, code in ((epsilon, 1), (lambda _: None, 0)):
        forged = copy.deepcopy(certificate)
        forge(forged)
        beside.write_text(json.dumps(forged, indent=2, ensure_ascii=False) + "\n")
        asked = [
            "ledger",
            "restore",
            str(released[2]),
            "--certificate",
            str(beside),
            "--home",
            str(tmp_path / "new"),
        ]
        done = CliRunner().invoke(app, asked)
        assert done.exit_code == code, done.output
    live = ["ledger", "verify", "--certificate", str(beside), "--home", str(tmp_path / "new")]
    assert CliRunner().invoke(app, live).exit_code == 0


def verified(books: Path, certificate: Path) -> Any:
    arguments = ["ledger", "verify", "--export", str(books), "--certificate", str(certificate)]
    return CliRunner().invoke(app, arguments)
