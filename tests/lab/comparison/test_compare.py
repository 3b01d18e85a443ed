"""``tabularium compare``: public data only, repeatable runs, a page whose plots a browser draws."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.lab.comparison.comparison import compare, contender, planned, suite_of
from tabularium.lab.comparison.data_sets import MADE_UP, made_up, made_up_set, public
from tabularium.lab.comparison.error_measures import CATALOGUE, comparable, random_rectangles
from tabularium.lab.comparison.suites import SUITES, Contender, Experiment, Suite, epsilons, suite_called
from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.errors import InputError, PublicationError
from tests.browser import picture, share_of_colour
from tests.debian import Unavailable
from tests.flows.release.scene import publish, write_scene
from tests.sizes import full

ROCHDALE = made_up_set("rochdale")


def small_suite(**changes: object) -> Suite:
    experiment = Experiment(
        "Errors",
        "Small.",
        (ROCHDALE,),
        (Contender.of("identity"), Contender.of("noise_first", centre="median")),
        epsilons("0.1", "1"),
        ("mean |error|", "absolute by range"),
        runs=3,
    )
    return Suite("small", "A small comparison", "For a test.", (replace(experiment, **changes),))  # type: ignore[arg-type]


def run(suite: Suite, folder: Path, processes: int = 1, runs: int | None = None) -> pd.DataFrame:
    return compare(suite, folder, runs=runs, seed=1, processes=processes, done=lambda done, jobs: None)


# --- measures -------------------------------------------------------------------------------------------


def test_errors_along_an_axis_by_hand() -> None:
    truth, release = np.array([0.0, 5.0, 20.0, 0.0]), np.array([1.0, 3.0, 21.0, 2.0])  # errors 1, -2, 1, 2
    points = {name: CATALOGUE[name].points(truth, release) for name in CATALOGUE if "parity" not in name}
    assert points["absolute by range"] == {1.0: 6 / 4, 2.0: (1 + 1 + 3) / 3, 4.0: 2.0}
    assert points["squared by range"] == {1.0: 10 / 4, 2.0: (1 + 1 + 9) / 3, 4.0: 4.0}
    # max(sum, 1): ranges of two hold 5, 25 and 20
    assert points["relative by range"][2.0] == pytest.approx((1 / 5 + 1 / 25 + 3 / 20) / 3)
    assert points["absolute by size"] == {"0": 1.5, "1-9": 2.0, "10-99": 1.0}
    assert points["relative by size"] == {"0": 1.5, "1-9": 2 / 5, "10-99": 1 / 20}
    assert points["total |error|, sorted"] == {"": 1 + 2 + 2 + 1}  # 20, 5, 0, 0 against 21, 3, 2, 1


@pytest.mark.parametrize("shape", [(12,), (5, 7), (3, 4, 5)])
def test_sums_of_boxes_are_those_of_slices(shape: tuple[int, ...]) -> None:
    truth = np.zeros(shape)
    release = np.arange(np.prod(shape), dtype=float).reshape(shape) - 7
    lows, highs = random_rectangles(shape)
    boxes = [
        tuple(slice(*ends) for ends in zip(low, high, strict=True))
        for low, high in zip(lows, highs, strict=True)
    ]
    expected = np.mean([abs(release[box].sum()) for box in boxes])
    assert CATALOGUE["rectangles"].points(truth, release)[""] == pytest.approx(expected)
    assert (highs > lows).all() and (highs <= np.array(shape)).all()


def test_the_best_parity_is_the_one_that_a_search_finds() -> None:
    counts = made_up("parity").astype(float)
    places = np.array(list(np.ndindex(counts.shape)))
    agreement = {
        mask: sum(
            counts[tuple(place)] * (1 if (place[:-1] @ np.array(mask)) % 2 == place[-1] else -1)
            for place in places
        )
        for mask in np.ndindex((2,) * 7)
    }
    best = max(agreement, key=lambda mask: agreement[mask])
    assert best == (1, 0, 1, 1, 0, 0, 1)  # as made
    assert CATALOGUE["parity missed"].points(counts, counts)[""] == 0
    swapped = counts.copy()
    swapped[:, 0], swapped[:, 1] = (
        counts[:, 0, ...],
        counts[:, 1, ::-1, ...],
    )  # the second attribute now counts too
    assert CATALOGUE["parity missed"].points(counts, swapped)[""] == 1


def test_pairs_of_count_and_multiplicity_are_only_good_for_sorted_measures() -> None:
    truth, values = np.array([3.0, 0.0, 3.0, 1.0]), np.array([[3, 2], [2, 1]])
    assert comparable(values, truth, CATALOGUE["KL"]) is None
    expanded = comparable(values, truth, CATALOGUE["KL, sorted"])
    assert expanded is not None and expanded.tolist() == [3.0, 3.0, 2.0]
    assert CATALOGUE["total |error|, sorted"].points(truth, expanded) == {"": 1.0}


# --- what may be compared on ----------------------------------------------------------------------------


def counts_file(folder: Path, name: str = "counts.npz") -> Path:
    path = folder / name
    np.savez(path, counts=np.arange(40))
    path.chmod(0o644)
    return path


def test_a_file_is_taken_when_its_publication_is_stated(tmp_path: Path) -> None:
    data = public(str(counts_file(tmp_path)), "Office for Statistics, table 7")
    assert data.counts().tolist() == list(range(40))
    assert "Office for Statistics, table 7" in data.says
    with pytest.raises(ValueError, match="read-only"):
        data.counts()[0] = 1


def test_counts_come_from_a_column_of_that_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"area": list("abc"), "count": [4, 0, 9]})
    for path, write in ((tmp_path / "t.csv", frame.to_csv), (tmp_path / "t.parquet", frame.to_parquet)):
        write(path, index=False)
        path.chmod(0o644)
        assert public(str(path), "here").counts().tolist() == [4, 0, 9]


@pytest.mark.parametrize(
    ("make", "because", "said"),
    [
        (counts_file, None, "nothing says that this file is public"),
        (counts_file, "  ", "nothing says that this file is public"),
        (lambda folder: folder / "missing.npz", "x", "there is no data set, file or folder"),
        (
            lambda folder: _written(folder / "spec.yaml", "product: people"),
            "x",
            "names confidential microdata",
        ),
        (lambda folder: _written(folder / "people.csv", "age,sex\n31,f\n"), "x", "this may be microdata"),
        (lambda folder: _written(folder / "c.csv", "count\n1\nmany\n"), "x", "c.csv, line 3, column count"),
        (lambda folder: _written(folder / "notes.txt", "1 2 3"), "x", "counts are read from"),
        (lambda folder: folder, "x", "no release lies in this folder"),
    ],
)
def test_what_may_be_confidential_is_refused(
    tmp_path: Path, make: object, because: str | None, said: str
) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(InputError, match=re.escape(said)) as error:
        public(str(path), because)
    text = str(error.value).replace(str(tmp_path), "")  # the folder's name has digits of its own
    assert "31" not in text and "many" not in text


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_a_file_that_others_may_not_read_is_refused(tmp_path: Path) -> None:
    path = counts_file(tmp_path)
    path.chmod(0o640)
    with pytest.raises(InputError, match="its mode keeps this file from other people"):
        public(str(path), "said to be public")


def test_nothing_inside_an_installation_is_taken(tmp_path: Path) -> None:
    for folder in ("home/workspaces/run", "home/books", "measurements/r1"):
        (tmp_path / folder).mkdir(parents=True)
        path = counts_file(tmp_path / folder)
        with pytest.raises(InputError, match="installation's home"):
            public(str(path), "said to be public")
        link = tmp_path / f"link-{Path(folder).name}.npz"
        link.symlink_to(path)
        with pytest.raises(InputError, match="installation's home"):
            public(str(link), "said to be public")


def test_a_published_release_is_taken_by_table(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    folder = Path(publish(spec, home).folder)
    counts = pd.read_parquet(folder / "age_sex.parquet")["count"].to_list()
    assert public(f"{folder}#age_sex", None).counts().tolist() == counts
    spec.write_text(spec.read_text().replace("{folder: releases}", "{folder: releases, formats: [csv]}"))
    text_alone = Path(publish(spec, home, period="2027").folder)
    own = pd.read_csv(text_alone / "age_sex.csv")["count"].to_list()
    assert public(f"{text_alone}#age_sex", None).counts().tolist() == own
    with pytest.raises(InputError, match=r"several tables.*area_age_sex, age_sex"):
        public(str(folder), None)
    with pytest.raises(InputError, match="no table of that name"):
        public(f"{folder}#sexes", None)


@pytest.mark.parametrize("parts", [{}, {"release_id": "r", "files": {}, "measurements": {"digest": "x"}}])
def test_a_folder_with_a_made_up_certificate_is_no_published_release(
    tmp_path: Path, parts: dict[str, object]
) -> None:
    """True counts beside a certificate that somebody wrote must not pass as public."""
    (tmp_path / "certificate.json").write_text(json.dumps({"tables": {"ages": {}}, **parts}))
    pd.DataFrame({"count": [5, 0, 7]}).to_parquet(tmp_path / "ages.parquet")
    with pytest.raises(PublicationError):
        public(f"{tmp_path}#ages", None)
    (tmp_path / "ages.parquet").unlink()
    with pytest.raises(PublicationError):
        public(f"{tmp_path}#ages", None)


# --- runs -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_results_are_the_same_in_one_process_and_in_two(tmp_path: Path) -> None:
    one, two = (run(small_suite(), tmp_path / str(number), processes=number) for number in (1, 2))
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), two.drop(columns="seconds"))
    assert (one["runs"] == 3).all() and (one["seconds"] > 0).all()


def test_the_error_of_plain_noise_is_what_its_law_says(tmp_path: Path) -> None:
    found = run(
        small_suite(contenders=(Contender.of("identity"),), measures=("mean |error|",)),
        tmp_path / "a",
        runs=40,
    )
    # E|DLap| at ε = 1/10 over 40 · 256 draws: 1/sinh(ε) = 9.98, standard error 0.10
    assert found.set_index("epsilon")["error"]["1/10"] == pytest.approx(1 / np.sinh(0.1), abs=0.6)


def test_what_two_experiments_ask_for_is_run_once() -> None:
    (first,) = small_suite().experiments
    second = replace(first, name="again", measures=("KL",), runs=5)
    jobs = planned(Suite("two", "", "", (first, second)), None, seed=10)
    seeds = [(job.contender.label, job.epsilon, seed) for job in jobs for seed in job.seeds]
    assert len(seeds) == len(set(seeds)) == 2 * 2 * 5
    assert {seed for _, _, seed in seeds} == set(range(10, 15))
    assert all(set(job.measures) == {"KL", "mean |error|", "absolute by range"} for job in jobs)


def test_a_mechanism_that_refuses_is_named_and_the_others_run(tmp_path: Path) -> None:
    suite = small_suite(
        contenders=(Contender.of("identity"), Contender.of("far", "noise_first", bins=10_000))
    )
    found = run(suite, tmp_path / "out", runs=1)
    assert found[found["mechanism"] == "far"]["refused"].str.contains("bins").all()
    assert (found[found["mechanism"] == "identity"]["refused"] == "").all()
    assert "Not run: far on rochdale" in (tmp_path / "out" / "index.html").read_text()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InputError, match="in use"):
        run(small_suite(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_mechanisms_are_written_with_their_parameters() -> None:
    found = contender("noise_first:penalty=paper,bins=12")
    assert (found.name, dict(found.parameters)) == ("noise_first", {"penalty": "paper", "bins": 12})
    for text, said in (
        ("noise_frist", "did you mean noise_first"),
        ("noise_first:penalty", "name=value"),
        ("noise_first:penalty=huge", "penalty"),
    ):
        with pytest.raises(InputError, match=said):
            contender(text)


def test_choices_that_do_not_go_together() -> None:
    with pytest.raises(InputError, match="a suite says itself"):
        suite_of("acs-2012", ["identity"], [], [], [], None)
    with pytest.raises(InputError, match="did you mean acs-2012"):
        suite_of("acs2012", [], [], [], [], None)
    with pytest.raises(InputError, match="ε is a positive number"):
        suite_of(None, [], [], ["-1"], [], None)
    with pytest.raises(InputError, match="no measure"):
        suite_of(None, [], [], [], ["beauty"], None)
    with pytest.raises(InputError, match="did you mean rochdale"):
        suite_of(None, [], ["rochdal"], [], [], None)


@pytest.mark.parametrize("name", SUITES)
def test_the_papers_suites_are_well_formed(name: str) -> None:
    suite = suite_called(name)
    assert len({experiment.name for experiment in suite.experiments}) == len(suite.experiments)
    for experiment in suite.experiments:
        cells = set()
        for data in experiment.data:
            assert data.location in MADE_UP, "a suite runs anywhere"
            taking_part = experiment.taking_part(data)
            assert len({one.label for one in taking_part}) == len(taking_part)
            for one in taking_part:
                cells |= {(data.name, one.label, str(epsilon)) for epsilon in experiment.epsilons}
                assert one.name in MECHANISMS
                build(one.name, **dict(one.parameters))
        assert set(experiment.published) <= cells, "every printed figure has its place"
        assert all(isinstance(epsilon, Fraction) for epsilon in experiment.epsilons)
        assert experiment.judged_by()


# --- the page -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_browser_draws_the_plots(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        f"compare --mechanism identity --mechanism noise_first --data rochdale --runs 2 --processes 1 "
        f"--out {tmp_path / 'out'} --json".split(),
    )
    assert done.exit_code == 0, done.output
    assert {row["mechanism"] for row in json.loads(done.stdout)["results"]} == {"identity", "noise_first"}
    page = tmp_path / "out" / "index.html"
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text), "nothing is loaded from elsewhere"
    try:
        shot = picture(page, tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))
    for colour in ("#0072b2", "#d55e00"):  # the lines of the two mechanisms
        assert share_of_colour(shot, colour) > 2e-4
    if not full():
        return
    page.write_text(text.replace("image/svg+xml;base64,", "image/svg+xml;base64,!"))
    assert share_of_colour(picture(page, tmp_path), "#0072b2") < 2e-5, (
        "without the plots there is no such colour"
    )
