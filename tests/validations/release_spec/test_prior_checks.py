"""Specs whose tables are drawn towards an earlier release: what is refused, and what the digest covers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tabularium.validations.domains.known_marginals import public_prior
from tabularium.validations.release_spec.load import examine, load_spec, measurement_plan
from tests.certificates import made_up
from tests.validations.release_spec.spec_samples import changed, write_spec

ID = "0123456789abcdef" * 2
PRIOR = f"    prior: {ID}\n"
AREA = "  - name: area_age\n"
SEX = "  - name: sex_status\n"


def lay(folder: Path, table: dict[str, Any] | None = None, **other: Any) -> Path:
    """Lay a certificate where the release would have been published.

    Parameters
    ----------
    table
        What its first table had otherwise.
    other
        What the certificate has otherwise.
    """
    place = folder / "published" / "persons" / "2025" / ID
    place.mkdir(parents=True)
    files = {"area_age.csv": "0" * 64, "area_age.parquet": "1" * 64}
    spec = copy.deepcopy(load_spec(write_spec(folder / "earlier")).published_spec)
    spec["tables"][0] |= table or {}
    found = made_up(**{"release_id": ID, "spec": spec, "files": files, **other})
    (place / "certificate.json").write_bytes(found.written())
    return place


def with_prior(folder: Path, text: str | None = None) -> Path:
    given = changed(AREA, AREA + PRIOR) if text is None else text
    return write_spec(folder, given + "publication: {folder: published}\n")


def problems(path: Path) -> list[str]:
    return [f"{each.where}: {each.what}".partition(": ")[2] for each in examine(path).problems]


def test_its_certificate_is_a_part_of_the_digest_and_not_of_what_is_measured(tmp_path: Path) -> None:
    place = lay(tmp_path)
    first = load_spec(with_prior(tmp_path))
    (prior,) = first.priors.values()
    assert (prior.release, prior.file, prior.digest) == (ID, "area_age.parquet", "1" * 64)
    assert first.public_files[public_prior(ID)] == prior.certificate
    (place / "certificate.json").write_text((place / "certificate.json").read_text() + "\n")
    other = load_spec(tmp_path / "spec.yaml")
    without = load_spec(write_spec(tmp_path / "without"))
    assert len({each.digest for each in (first, other, without)}) == 3
    plans = [measurement_plan(each.spec, each.public_files) for each in (first, other, without)]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"release_id": "f" * 32}, "another release lies in the folder of that id"),
        ({"table": {"name": "age_area"}}, "has no table `area_age` of the same dimensions"),
        ({"table": {"dimensions": ["area", "sex"]}}, "of the same dimensions"),
        ({"table": {"where": "age >= 18"}}, "hierarchy and universe"),
        ({"files": {"area_age.xlsx": "0" * 64}}, "neither as csv nor as parquet"),
    ],
)
def test_an_earlier_release_that_does_not_fit_is_refused(tmp_path: Path, other: Any, said: str) -> None:
    lay(tmp_path, **other)
    (found,) = problems(with_prior(tmp_path))
    assert found.startswith("tables[0].prior: ")
    assert said in found


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    place = lay(tmp_path) / "certificate.json"
    place.write_text(place.read_text().replace('"format": 1', '"form": 1'))
    (found,) = problems(with_prior(tmp_path))
    assert "is not what it should be: format" in found


def test_measurements_that_are_there_already_are_not_drawn_towards_a_prior(tmp_path: Path) -> None:
    """It may hold their very noise: then nothing seems to have changed, and margins are far too narrow."""
    lay(tmp_path)
    found = examine(with_prior(tmp_path), revises="better", measurements_of=ID).problems
    assert any("stand on the very noise" in each.what for each in found), found


def test_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert problems(with_prior(tmp_path)) == [
        f"tables[0].prior: no release `{ID}` of this product lies in the publication folder"
    ]


def test_the_level_above_is_no_release(tmp_path: Path) -> None:
    """What was measured may be drawn towards it afterwards, and the digest of the spec covers that."""
    text = changed(AREA, f"{AREA}    prior: above\n")
    drawn, plain = load_spec(write_spec(tmp_path, text)), load_spec(write_spec(tmp_path / "plain"))
    assert not drawn.priors
    assert drawn.digest != plain.digest
    plans = [measurement_plan(each.spec, each.public_files) for each in (drawn, plain)]
    assert plans[0] == plans[1]
    found = examine(tmp_path / "spec.yaml", revises="better", measurements_of=ID).problems
    assert not any("noise" in each.what for each in found), found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SEX, f"{SEX}    prior: above\n", "the level above says how areas are made up"),
        (AREA, f"{AREA}    prior: beside\n", "is not a name that fits here"),
        (AREA, f"{AREA}    prior: above\n    mechanism: denoise\n", "noise of its own"),
        (
            '    levels: {nation: "1/6", region: "1/3", place: "1/2"}\n',
            "    prior: above\n",
            "there is none above it",
        ),
    ],
)
def test_a_level_above_that_says_nothing_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    found = problems(write_spec(tmp_path, changed(old, new)))
    assert any(".prior: " in each and said in each for each in found), found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            AREA,
            f"{AREA}{PRIOR}    mechanism: denoise\n",
            "denoise does not leave each cell with noise of its own",
        ),
        (
            AREA,
            f"{AREA}{PRIOR}    measures: {{pay: {{sum: pay, from: 0, to: 9, step: 1}}}}\n",
            "this table has measures",
        ),
        (
            SEX,
            f'{SEX}    measures: {{old: {{percent: "age >= 65", over: area_age}}}}\n',
            "a rate is over the counts of this table",
        ),
        (
            "rules:\n",
            "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\nrules:\n",
            "is off",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    lay(tmp_path)
    text = changed(old, new)
    found = problems(with_prior(tmp_path, text if PRIOR in text else changed(AREA, AREA + PRIOR, text)))
    assert any(each.startswith("tables[0].prior: ") and said in each for each in found), found
