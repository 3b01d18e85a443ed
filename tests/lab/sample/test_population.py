"""Persons with work and homes, respondents, and hospital stays: plausible, and odd where people are odd."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tabularium.lab.sample import write_sample
from tabularium.lab.sample.blocks import Block, Coded, Geography, Holed, draw_geography, first_rows
from tabularium.lab.sample.hospital import (
    BLOCKS,
    CHAPTERS,
    diagnosis_list,
    hospital_blocks,
    hospital_codes,
    hospital_list,
)
from tabularium.lab.sample.households import ADULT
from tabularium.lab.sample.population import (
    INDUSTRIES,
    LARGEST_WEIGHT,
    MAJORS,
    NINES,
    OCCUPATIONS,
    SECTIONS,
    SMALLEST_WEIGHT,
    industry_list,
    occupation_list,
    population_blocks,
    survey_blocks,
)
from tabularium.mechanisms.noise.synthetic import generator


@pytest.fixture(scope="module")
def geography() -> Geography:
    return draw_geography(generator(3), 400)


def frame(block: Block) -> pd.DataFrame:
    """A block as a frame: texts and numbers, null where there is none."""

    def column(values: Any) -> Any:
        if isinstance(values, Coded):
            return pd.Categorical.from_codes(values.index.tolist(), list(values.texts)).astype(object)
        return np.where(values.missing, np.nan, values.values) if isinstance(values, Holed) else values

    return pd.DataFrame({name: column(values) for name, values in block.items()})


@pytest.fixture(scope="module")
def census(geography: Geography) -> list[pd.DataFrame]:
    return [frame(part) for part in next(population_blocks(generator(5), geography))]


@pytest.fixture(scope="module")
def survey(geography: Geography) -> pd.DataFrame:
    return frame(next(survey_blocks(generator(6), geography))[0])


@pytest.fixture(scope="module")
def stays(geography: Geography) -> pd.DataFrame:
    return frame(next(hospital_blocks(generator(7), geography))[0])


def test_every_person_has_a_household_and_lives_where_it_is(census: list[pd.DataFrame]) -> None:
    persons, homes = census
    both = persons.merge(homes, on="household_id", how="left", validate="many_to_one")
    assert (both["district_x"] == both["district_y"]).all()
    assert set(homes["household_id"]) == set(persons["household_id"])
    assert (persons[persons["role"] == "reference"].groupby("household_id").size() == 1).all()
    assert (persons["role"] == "reference").sum() == len(homes)
    assert homes["tenure"].value_counts(normalize=True)["owned"] == pytest.approx(0.32, abs=0.05)
    assert (homes["rooms"].isna() | homes["rooms"].between(1, 7)).all()


def test_who_does_not_work_has_no_job(census: list[pd.DataFrame]) -> None:
    persons, _ = census
    works = persons["status"] == "employed"
    for column in ("occupation", "industry", "hours"):
        assert persons.loc[~works, column].isna().all()
        assert 0.005 < persons.loc[works, column].isna().mean() < 0.03
    assert persons["hours"].max() == 168  # as people answer
    assert persons.loc[works, "hours"].median() == 40
    children = persons["age"] < ADULT
    for column in ("education", "marital", "income"):
        assert persons.loc[children, column].isna().all()
        assert persons.loc[~children, column].isna().mean() < 0.06


def test_incomes_are_odd_now_and_then(census: list[pd.DataFrame]) -> None:
    income = census[0]["income"].dropna()
    usual = income[(income >= 0) & (income < NINES)]
    assert 0.001 < (income < 0).mean() < 0.006
    assert 1 <= (income == NINES).sum() < 40
    assert np.isinf(income).mean() < 0.0001
    assert 25_000 < usual.median() < 50_000
    by = usual.groupby(census[0].loc[usual.index, "occupation"].str[:3]).median()
    assert by["OC1"] > by["OC4"] > by["OC9"]  # managers, clerks, elementary occupations


def test_infinities_are_rare_but_there(geography: Geography) -> None:
    found = sum(
        int(np.isinf(persons["income"].values).sum())  # type: ignore[union-attr]
        for persons, _ in islice(population_blocks(generator(8), geography), 3)
    )
    assert 0 < found < 30


def test_a_survey_has_weights_within_its_bounds(survey: pd.DataFrame) -> None:
    assert survey["weight"].between(SMALLEST_WEIGHT, LARGEST_WEIGHT).all()
    assert (survey["weight"] == LARGEST_WEIGHT).mean() < 0.01
    young, old = (survey.loc[survey["age"].between(*ages), "weight"].mean() for ages in ((20, 29), (60, 69)))
    assert young > 1.1 * old  # the young answer less
    assert survey["status"].isna().equals(survey["age"] < ADULT)
    adults = survey[survey["age"] >= ADULT]
    assert adults["status"].value_counts(normalize=True)["employed"] == pytest.approx(0.62, abs=0.05)
    assert survey.loc[survey["position"] != "employee", "pay"].isna().all()
    assert 0.08 < survey.loc[survey["position"] == "employee", "pay"].isna().mean() < 0.16
    assert survey["months"].notna().equals(survey["status"] == "unemployed")


def test_stays_do_not_overlap(stays: pd.DataFrame) -> None:
    assert stays["patient_id"].is_monotonic_increasing
    again = stays["patient_id"].diff() == 0
    gap = (stays["admitted"] - stays["discharged"].shift()).dt.days
    assert (gap[again] >= 0).all()
    length = (stays["discharged"] - stays["admitted"]).dt.days
    assert (length.dropna() == stays["nights"].dropna()).all()
    assert stays["discharged"].isna().equals(stays["nights"].isna())
    assert 0.001 < stays["discharged"].isna().mean() < 0.03  # still there at the end of the year
    assert stays["admitted"].dt.year.eq(2025).all()
    died = (stays["outcome"] == "died") & again.shift(-1, fill_value=False)
    assert not died.any()
    per_patient = stays.groupby("patient_id").size()
    assert (per_patient > 10).mean() > 0.005


def test_diagnoses_go_with_sex_and_age(stays: pd.DataFrame) -> None:
    only = {code: sex for blocks in BLOCKS.values() for code, _, _, sex in blocks if sex}
    assert len(only) >= 10
    for code, sex in only.items():
        assert set(stays.loc[stays["diagnosis"] == code, "sex"]) == {sex}, code
    assert set(stays["diagnosis"]) == {code for blocks in BLOCKS.values() for code, *_ in blocks}
    births = stays[stays["admission"] == "birth"]
    assert (births["born"].isna() | (births["born"] == births["admitted"])).all()
    age = (stays["admitted"] - stays["born"]).dt.days / 365.25
    assert age.min() >= 0
    assert 0.0005 < age.isna().mean() < 0.005


def test_patients_are_mostly_treated_near(stays: pd.DataFrame, geography: Geography) -> None:
    region = {
        code: parent for code, _, parent in (*geography.code_list("district"), *hospital_list(geography))
    }
    assert set(stays["hospital"]) == set(hospital_codes(geography))
    same = (stays["hospital"].map(region) == stays["district"].map(region)).mean()
    assert 0.94 < same < 1
    assert set(geography.codes("region")) == {region[code] for code in hospital_codes(geography)}


@pytest.mark.parametrize(
    ("rows", "leaves"),
    [
        (occupation_list(), {*OCCUPATIONS, "NRP"}),
        (industry_list(), {*INDUSTRIES, "NRP"}),
        (diagnosis_list(), {code for blocks in BLOCKS.values() for code, *_ in blocks}),
    ],
)
def test_a_code_list_is_one_tree(rows: list[tuple[str, str, str]], leaves: set[str]) -> None:
    codes = [code for code, _, _ in rows]
    assert len(set(codes)) == len(codes)
    assert [parent for _, _, parent in rows].count("") == 1
    assert {parent for _, _, parent in rows if parent} <= set(codes)
    assert set(codes) - {parent for _, _, parent in rows} == leaves


def test_the_classifications_are_whole() -> None:
    assert [major.code for major in MAJORS] == [
        "OC1",
        "OC2",
        "OC3",
        "OC4",
        "OC5",
        "OC6",
        "OC7",
        "OC8",
        "OC9",
        "OC0",
    ]
    assert len(OCCUPATIONS) == 43  # sub-major groups of ISCO-08
    assert "".join(SECTIONS) == "ABCDEFGHIJKLMNOPQRSTU"
    assert list(BLOCKS) == [chapter.code for chapter in CHAPTERS]


def test_of_the_other_file_no_row_is_left_over() -> None:
    main = {"person_id": np.arange(6), "home_id": np.array([1, 1, 2, 3, 3, 4])}
    other = {"home_id": np.arange(1, 5), "rooms": Holed(np.arange(4), np.zeros(4, bool))}
    for rows, homes in ((1, 1), (2, 1), (3, 2), (4, 3), (6, 4)):
        ((first, second),) = first_rows(iter([(main, other)]), rows)  # type: ignore[list-item]
        assert (len(first["person_id"]), len(second["rooms"])) == (rows, homes)


def test_both_files_end_together(tmp_path: Any) -> None:
    files = write_sample("households", 5001, tmp_path / "p.csv", meshblocks=40)
    persons, homes = pd.read_csv(files.data), pd.read_csv(files.others["households"])
    assert len(persons) == 5001
    assert homes["household_id"].tolist() == list(range(1, persons["household_id"].max() + 1))
    kept = pq.read_table(
        write_sample("households", 5001, tmp_path / "p.parquet", meshblocks=40, overwrite=True).data
    )
    assert kept["income"].null_count == persons["income"].isna().sum()
