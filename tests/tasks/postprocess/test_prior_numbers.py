"""A file that a table cannot be drawn towards is found by the dry run, when nothing is charged yet."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.dry_run import dry_run_priors
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import load_spec
from tests.validations.release_spec import test_prior_checks
from tests.validations.release_spec.spec_samples import changed

HEAD = "level,area,age,sex,count\n"
AGES = [str(age) for age in range(100)]
GOOD = HEAD + "".join(f"place,N1,{age},{sex},5\n" for age in AGES for sex in "12")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD, ""),
        (GOOD.replace(",5\n", ",inf\n", 1), "not what its certificate says"),
        (GOOD.replace(",5\n", ",1e300\n", 1), "not what its certificate says"),
        (GOOD.replace(",5\n", ",many\n", 1), "not what its certificate says"),
        (GOOD.replace("sex", "gender", 1), "not what its certificate says"),
        (GOOD + "place,N1\n", "not what its certificate says"),
        (HEAD + "place,N1,5,1,5\n", "a number for 1 of the cells"),
    ],
    ids=["good", "infinite", "huge", "text", "no column", "short line", "too few"],
)
def test_a_file_is_read_before_anything_is_charged(tmp_path: Path, content: str, said: str) -> None:
    digest = hashlib.sha256(content.encode()).hexdigest()
    place = test_prior_checks.lay(tmp_path, files={"area_age.csv": digest})
    (place / "area_age.csv").write_text(content)
    text = changed(test_prior_checks.AREA, test_prior_checks.AREA + test_prior_checks.PRIOR)
    text = changed(", edges: [5, 18, 65]", "", text)
    run = without_data(load_spec(test_prior_checks.with_prior(tmp_path, text)))
    if not said:
        dry_run_priors(run)
        return
    with pytest.raises(TabulariumError, match=said):
        dry_run_priors(run)
