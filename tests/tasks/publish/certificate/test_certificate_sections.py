"""Certificates of different releases: they fit the schema, themselves, the ledger and their own figures."""

from __future__ import annotations

import copy
import doctest
import json
import random
import re
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from tabularium.ledger import Ledger
from tabularium.mechanisms import MECHANISMS
from tabularium.mechanisms.accounting import Event
from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.publish.certificate.software import OWN, audited_code, audits, code_digest
from tabularium.tasks.publish.certificate.spending import DISTRIBUTIONS
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.runtime.home import Home
from tabularium.validations.certificate import Certificate, Sampler
from tabularium.validations.certificate.certificate_schema import certificate_schema, schema_text
from tabularium.validations.public_files import Unreadable
from tests.audit.record import UNCHOSEN
from tests.sizes import runs
from tests.tasks.publish.certificate.samples import SAMPLES, adaptive, certificate, everything, revised

# One worker for the whole file: its releases are made once.
pytestmark = pytest.mark.xdist_group("certificate")
ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "how-to" / "review-a-release.md"


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {make.__name__: make(tmp_path_factory.mktemp(make.__name__)) for make in SAMPLES}


@pytest.fixture(params=[make.__name__ for make in SAMPLES])
def folder(request: pytest.FixtureRequest, releases: dict[str, Path]) -> Path:
    return releases[request.param]


def test_the_schema_is_a_schema_that_names_no_address() -> None:
    schema = certificate_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].startswith("urn:")
    committed = files("tabularium.validations.certificate") / "certificate.schema.json"
    assert committed.read_text(encoding="utf-8") == schema_text(), (
        "run python -m tabularium.validations.certificate.certificate_schema > validations/certificate/certificate.schema.json"
    )


def test_every_certificate_fits_the_schema_and_itself_and_is_written_as_it_was(folder: Path) -> None:
    raw = (folder / "certificate.json").read_bytes()
    assert jsonschema.Draft202012Validator(certificate_schema()).is_valid(json.loads(raw))
    assert verify_certificate(folder / "certificate.json").written() == raw


def test_every_section_is_described() -> None:
    schema = certificate_schema()
    for name, held in schema["properties"].items():
        about = schema["$defs"][held["$ref"].split("/")[-1]] if "$ref" in held else held
        assert about.get("description"), name


def places(document: Any, steps: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if steps:
        yield steps
    inside = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in inside:
        yield from places(value, (*steps, key))


#: What the schema leaves open: other pages say what is in there.
OPEN = {"spec", "agreement", "parameters"}


def is_read(document: dict[str, Any]) -> bool:
    """Whether the model takes it, as the schema does."""
    try:
        Certificate.of(document)
    except Unreadable:
        return False
    return True


def test_what_is_missing_more_or_of_another_kind_is_refused(releases: dict[str, Path]) -> None:
    """Fields by name; what maps names (tables, files, columns) to values takes any name."""
    good, chance = certificate(releases["everything"]), random.Random(3)
    every = [steps for steps in places(good) if not OPEN & set(steps[:-1]) and steps[-1] not in OPEN]
    validator = jsonschema.Draft202012Validator(certificate_schema())
    maps = {"files", "software", "code_lists", "margins", "audits", "domains", "tables", "noise_variance"}
    maps |= {"mean_squared_error"}
    unseen = []
    for steps in chance.sample(every, runs(80, 250)):
        for kind in ("another", "gone", "more"):
            bad = copy.deepcopy(good)
            holder = bad
            for step in steps[:-1]:
                holder = holder[step]
            if kind == "another":
                holder[steps[-1]] = {"of": "another kind"} if not isinstance(holder[steps[-1]], dict) else 7
            elif isinstance(holder, list) or (len(steps) > 1 and steps[-2] in maps):
                continue
            elif kind == "gone":
                del holder[steps[-1]]
            else:
                holder["more"] = "x"
            if validator.is_valid(bad) or is_read(bad):
                unseen.append((kind, steps))
    optional = {"noise_variance", "failed_checks", "mean_squared_error", "simulated_releases", "checked"}
    optional |= {"sizes_of", "largest_size", "broken", "epsilon", "epsilon_per_record", "delta", "rho"}
    optional |= {"level"}  # of an error in a table without a hierarchy
    gone = {steps for kind, steps in unseen if kind == "gone" and steps[-1] not in optional}
    assert {steps for steps in gone if steps[0] != "about"} == set()  # its defaults are those of a spec
    assert [steps for kind, steps in unseen if kind != "gone"] == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("transcript", 0, "primitive"), "laplace"),  # continuous noise, which is never drawn here
        (("transcript", 0, "alike"), 1),
        (("randomness", "samplers"), ["gaussian"]),
        (("randomness", "predictable"), 0),
        (("format",), True),
        (("created",), "2025-01-01T00:00:00Z"),
        (("tables", "Ages of all"), {}),
    ],
)
def test_what_no_release_has_is_refused(
    releases: dict[str, Path], place: tuple[Any, ...], value: Any
) -> None:
    found = certificate(releases["everything"])
    holder: Any = found
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    assert not is_read(found)
    assert not jsonschema.Draft202012Validator(certificate_schema()).is_valid(found)


def test_the_samplers_are_those_whose_distribution_is_stated() -> None:
    assert set(get_args(Sampler)) == set(DISTRIBUTIONS)


def test_the_parts_of_the_budget_add_up_exactly(folder: Path) -> None:
    found = certificate(folder)
    privacy = found["privacy"]
    symbol = "epsilon" if privacy["definition"] == "pure" else "rho"
    assert sum(Fraction(part["share"]) for part in found["allocation"]) == 1
    assert sum(Fraction(part["per_unit"]) for part in found["allocation"]) == Fraction(privacy[symbol])
    assert sum(Fraction(part["per_record"]) for part in found["allocation"]) == Fraction(
        privacy[f"{symbol}_per_record"]
    )
    spent = sum(Fraction(part["spent_per_record"]) for part in found["measured"])
    assert spent <= Fraction(privacy[f"{symbol}_per_record"])


def test_every_draw_of_the_transcript_is_in_one_measurement(folder: Path) -> None:
    found = certificate(folder)
    assert sum(draw["draws"] for part in found["measured"] for draw in part["draws"]) == len(
        found["transcript"]
    )
    scales = {draw["scale_squared"] for part in found["measured"] for draw in part["draws"]}
    assert scales == {event["scale_squared"] for event in found["transcript"]}
    assert all(draw["distribution"] for part in found["measured"] for draw in part["draws"])


def test_disjoint_cells_are_named_with_their_evidence(releases: dict[str, Path]) -> None:
    found = certificate(releases[adaptive.__name__])
    events = [Event.from_dict(each) for each in found["transcript"]]
    assert found["composition"]["parallel"]
    assert {each["measurement"].partition("/")[0] for each in found["composition"]["parallel"]} == {
        event.purpose.partition("/")[0] for event in events if event.branches
    }
    bought = [part["of_it_for_margins"] for part in found["allocation"] if part["name"] == "age_sex"]
    assert bought == ["1/20"]


@pytest.mark.parametrize("name", [everything.__name__, revised.__name__])
def test_the_account_is_as_the_ledger_has_it(releases: dict[str, Path], name: str) -> None:
    found = certificate(releases[name])
    scene = releases[name]
    while not (scene / "home").is_dir():
        scene = scene.parent
    with Ledger.connect(Home.at(scene / "home").ledger_url) as books:
        account = books.account("people")
        entries = {entry.seq: entry.body for entry in books.entries()}
    said, reserved = found["account"], found["account"]["reserved"]
    body = entries[reserved["entry"]]
    assert (body["kind"], body["release_id"]) == ("reserved", found["release_id"])
    assert Fraction(said["cumulative"]["used"]) == account.reserved + account.spent
    assert Fraction(said["cap"]) - Fraction(said["cumulative"]["used"]) == Fraction(reserved["left_after"])
    by = found["approval"]["approved"]
    assert entries[by["entry"]]["kind"] == "approval"
    assert entries[by["entry"]]["by"] == by["key"]
    assert "A. Ro" not in (releases[name] / "certificate.json").read_text(), "no name of a person"
    assert found["approval"]["needed"] is (name == "revised")
    assert said["cumulative"]["releases_before"] == (1 if name == "revised" else 0)
    assert said["cumulative"]["charges"] == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("account", "reserved", "left_before"), "7"),
        (("account", "cumulative", "used"), "11"),
        (("account", "name"), "others"),
        (("account", "definition"), "zcdp"),
        (("account", "cap"), "5"),
        (("account", "reserved", "entry"), 10_000),
        (("allocation", 0, "share"), "1/3"),
        (("measured", 0, "draws", 0, "scale"), "1/1"),
        (("measured", 0, "mechanism"), "gaussian"),
        (("privacy", "conversion", "rho"), "1/4"),
        (("postprocessing", "steps", 2, "done"), False),
        (("domains", "area", "sha256"), "0" * 64),
        (("validation", "rules", 0, "charged"), "0"),
        (("tuning", "data"), []),
        (("tuning", "data", 0, "release"), "another"),
        (("composition", "changed_records"), 2),
        (("about", "title"), "Another"),
        (("approval", "approved", "entry"), 10_000),
        (("approval", "needed"), True),
    ],
)
def test_a_section_that_does_not_fit_is_named(
    releases: dict[str, Path], tmp_path: Path, field: tuple[Any, ...], value: Any
) -> None:
    found = certificate(releases["everything"])
    holder: Any = found
    for step in field[:-1]:
        holder = holder[step]
    assert holder[field[-1]] != value
    holder[field[-1]] = value
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "areas.csv").write_bytes(
        (releases["everything"] / "codes" / "areas.csv").read_bytes()
    )
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(found))
    with pytest.raises(PublicationError, match=str(field[0])):
        verify_certificate(path)


def test_the_code_is_what_a_shell_would_find(tmp_path: Path) -> None:
    listed = (
        "find -L *.py flows ledger mechanisms tasks validations -type f ! -name '*.pyc' ! -path '*/.compiled/*' "
        "! -path '*/__pycache__/*' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    )
    told = subprocess.run(
        listed, shell=True, cwd=ROOT / "tabularium", capture_output=True, text=True, check=True
    )
    assert told.stdout.split()[0] == code_digest(*OWN)


def test_every_mechanism_has_a_recorded_audit_that_found_no_more_than_was_paid() -> None:
    for kind in (*MECHANISMS.values(), *(type(how) for how, _ in UNCHOSEN.values())):
        for definition in kind.definitions:
            found = audits()[kind.name, definition]
            assert found.mechanisms == audited_code(), "run python -m tests.audit.record"
            assert found.replayed.largest_share <= 1 + 1e-9
            assert found.shown.at_least <= found.shown.budget
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.date)


def test_every_place_that_the_reviewers_page_names_is_there(releases: dict[str, Path]) -> None:
    found = [certificate(folder) for folder in releases.values()]
    named = set(re.findall(r"`(\$\.[a-z0-9_.\[\]*]+)`", PAGE.read_text()))
    assert len(named) > 40
    missing = {path for path in named if not any(list(at(path, each)) for each in found)}
    assert missing == set()
    sections = {path.split(".")[1].split("[")[0] for path in named}
    assert set(found[0]) - sections == set(), "a section that no question leads to"


def test_the_examples_of_the_folders_page() -> None:
    assert (
        doctest.testfile(str(ROOT / "docs" / "reference" / "release-folder.md"), module_relative=False).failed
        == 0
    )


def at(path: str, document: Any) -> Iterator[Any]:
    """Yield what a path like ``$.measured[*].draws[*].scale`` finds; ``*`` also stands for any key."""
    found = [document]
    for step in path[2:].replace("[*]", ".*").split("."):
        if step == "*":
            found = [value for each in found for value in (each.values() if isinstance(each, dict) else each)]
        else:
            found = [each[step] for each in found if isinstance(each, dict) and step in each]
    yield from found
