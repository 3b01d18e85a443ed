"""What people who are new here do wrong: each is one line that names the hint, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result
from rich.cells import cell_len
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger
from tabularium.tasks.publish.publish import EXCEPTIONS
from tabularium.validations.release_spec.partial_spec import RESERVED
from tabularium.validations.release_spec.publication_formats import reserved_names
from tests.flows.release.scene import publish, write_scene

ROOT = Path(__file__).parents[3]


def tabularium(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def refused(*words: object) -> str:
    done = tabularium(*words)
    assert done.exit_code == 1, done.output
    *_, line = done.stderr.splitlines()
    return line


def folders(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob("*") if path.is_dir()}


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("command", ["run", "check"])
def test_data_given_as_the_spec_are_called_data(name: str, command: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PAR1\xff\xfe" if name.endswith("parquet") else b"area,age\nA1,3\n")
    words = [command, tmp_path / name, *(["--home", tmp_path / "home"] if command == "run" else [])]
    said = tabularium(*words).stderr
    assert f"{name}: is a file of data, and no release spec; give the YAML file" in said.replace(":1:", ":")
    assert not (tmp_path / "home").exists()


def test_a_wrong_source_option_is_the_one_that_is_named(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    said = refused("run", spec, "--home", home.path, "--source", tmp_path / "areas.doc")
    assert said.startswith("error: --source: the ending does not say how the file is written")
    said = refused("run", spec, "--home", home.path, "--source", tmp_path / "nothing.csv")
    assert "nothing.csv: there is no such file; check --source" in said


def test_an_unknown_account_names_the_command_that_knows(tmp_path: Path) -> None:
    _, home = write_scene(tmp_path)
    said = refused("ledger", "show", "nobody", "--home", home.path)
    assert said.endswith("account nobody: no such account; known are people")


@pytest.mark.parametrize(
    "words", ["show", "history", "review", "keys", "verify", "export {}/x.txt", "plot a {}/x.svg"]
)
def test_reading_makes_no_home(words: str, tmp_path: Path) -> None:
    home = tmp_path / "typo"
    said = refused("ledger", *words.format(tmp_path).split(), "--home", home)
    assert said == f"error: {home}: no home is here; name yours with --home or TABULARIUM_HOME"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", ["show", "history", "review", "keys", "verify", "export {}/x.txt", "plot a {}/x.svg"]
)
def test_reading_makes_no_ledger(words: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    said = refused("ledger", *words.format(tmp_path).split(), "--home", home)
    assert said.startswith("error: ledger.db: no ledger is there yet; name another home or TABULARIUM_LEDGER")
    assert tabularium("doctor", "--home", home).output.count("none yet") >= 2
    assert list(tmp_path.rglob("*")) == [home]


def test_a_key_that_cannot_be_read_names_the_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, home = write_scene(tmp_path)
    monkeypatch.setenv("TABULARIUM_KEY_PASSPHRASE", "first")
    assert tabularium("ledger", "keys", "new", tmp_path / "a.pem").exit_code == 0
    monkeypatch.delenv("TABULARIUM_KEY_PASSPHRASE")
    enrol = ("ledger", "keys", "enrol", tmp_path / "a.pub.pem", "--officer", "A", "--key", tmp_path / "a.pem")
    assert "its passphrase in TABULARIUM_KEY_PASSPHRASE" in refused(*enrol, "--home", home.path)


def test_the_help_of_keys_names_the_commands_that_are_there() -> None:
    from tabularium.flows.cli.ledger.approvals import keys

    named = {command.name for command in keys.registered_commands}
    assert named == {"new", "enrol", "revoke"}
    assert all(str(name) in (keys.info.help or "") for name in named)


def test_a_sample_onto_a_file_names_the_option(tmp_path: Path) -> None:
    words = ("sample", "--rows", 50, "--out", tmp_path / "people.csv")
    assert tabularium(*words).exit_code == 0
    assert refused(*words).endswith("this file exists; name another, or say --overwrite")
    assert tabularium(*words, "--overwrite").exit_code == 0


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    for words in (["ledger", "show"], ["check", "x.yaml"]):
        done = subprocess.run(
            [
                "sh",
                "-c",
                leave,
                "sh",
                str(gone),
                sys.executable,
                "-c",
                "from tabularium.flows.cli.app import main; main()",
                *words,
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr == "error: tabularium: the folder you are in is gone; cd to another\n"
        gone.mkdir()


def test_what_is_reserved_is_what_a_release_folder_holds(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    folder = Path(publish(spec, home).folder)
    held = {path.name.partition(".")[0] for path in folder.iterdir()} | {EXCEPTIONS.partition(".")[0]}
    held.remove("bill-of-materials")  # no name of a table has a hyphen
    assert held - {"area_age_sex", "age_sex"} <= RESERVED | reserved_names()


@pytest.mark.parametrize("name", sorted(RESERVED | reserved_names()))
def test_names_of_other_things_in_a_release_folder_are_reserved(name: str, tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("name: age_sex", f"name: {name}"))
    said = tabularium("check", spec).stderr
    assert (
        "tables[1].name: something else in the folder of a release has this name; call the table otherwise"
        in said
    )


def test_check_refuses_what_run_would_refuse_without_data(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/1000000000000")
    with_mechanism = spec.read_text().replace(
        '    share: "1/3"\n', '    share: "1/3"\n    mechanism: {name: privelet}\n'
    )
    spec.write_text(with_mechanism)
    told = tabularium("check", spec)
    assert told.exit_code == 1
    run = refused("run", spec, "--home", home.path)
    assert run.removeprefix("error: ") in told.stderr.replace("small.yaml: ", "")


@pytest.mark.parametrize("why", ["data", "account", "spec"])
def test_a_run_that_is_refused_leaves_no_folders(why: str, tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, extra=[("A1", "30", "7")] if why == "data" else [])
    if why == "account":
        spec.write_text(spec.read_text().replace("dataset: people", "dataset: others"))
    if why == "spec":
        spec.write_text(spec.read_text() + "nonsense: 1\n")
    before = folders(tmp_path)
    refused("run", spec, "--home", home.path)
    diagnoses = {Path("home/diagnoses")} if why == "data" else set()
    assert folders(tmp_path) - before == diagnoses


def test_a_table_of_a_release_is_not_improved_again(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    folder = Path(publish(spec, home).folder)
    more = ("--scale", "10", "--out", tmp_path / "better.csv")
    published = folder / "age_sex.csv"
    copied = shutil.copy(published, tmp_path / "copy.csv")
    for table in (published, copied):
        said = refused("improve", table, "--value", "count", *more)
        assert "this table is post-processed already" in said
        assert "measurements/ of the release" in said
    noisy = folder / "measurements" / "age_sex.parquet"
    assert tabularium("improve", noisy, "--value", "measured", *more).exit_code == 0


ONLY_READ: dict[str, Any] = {
    "show": "people",
    "show people --json": '"left": "9"',
    "history": "published",
    "review": "people",
    "keys": "No key is enrolled",
    "verify": "is whole",
}


def test_a_home_that_may_only_be_read_can_be_read(tmp_path: Path) -> None:
    """Also root may not write there, once it has given up the right to go over the modes of files."""
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    modes = {path: path.stat().st_mode for path in (home.path, *home.path.rglob("*"))}
    plain = shutil.which("setpriv") if os.geteuid() == 0 else None
    if os.geteuid() == 0 and plain is None:
        pytest.skip("root writes everywhere, and setpriv is not here")
    drop = [plain, "--bounding-set=-dac_override,-dac_read_search"] if plain else []
    words = list(ONLY_READ)
    program = (
        "import sys; from typer.testing import CliRunner; from tabularium.flows.cli.app import app\n"
        "for words in sys.argv[2:]:\n"
        "    done = CliRunner().invoke(app, ['ledger', *words.split(), '--home', sys.argv[1]])\n"
        "    print(words, done.exit_code, done.output, sep='\\n', end='\\0')\n"
    )
    try:
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        done = subprocess.run(
            [*drop, sys.executable, "-c", program, str(home.path), *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert {path: path.stat().st_mode & 0o222 for path in modes} == dict.fromkeys(modes, 0)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    answers = dict(answer.split("\n", 1) for answer in done.stdout.split("\0")[:-1])
    for asked, expected in ONLY_READ.items():
        assert answers[asked].startswith("0\n"), answers[asked]
        assert expected in answers[asked]
    with Ledger.connect(home.ledger_url) as books:
        assert books.verify().entries > 3


def test_what_people_read_fits_eighty_columns_and_no_name_is_cut(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, extra=[("A1", "30", "7")])
    text = spec.read_text().replace("name: area_age_sex", "name: households_by_place_age_group_and_sex")
    spec.write_text(text)
    refused("run", spec, "--home", home.path)
    spec.write_text(text.replace("max_rejected: 0", "max_rejected: 9"))
    folder = publish(spec, home).folder
    commands = (
        ("check", spec),
        ("diagnose", "--home", home.path),
        ("query", folder, "count by area, age where sex = male"),
        ("query", folder),
        ("ledger", "keys", "--home", home.path),
    )
    for words in commands:
        shown = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
        assert shown.exit_code == 0, shown.output
        tables = [
            line for line in shown.stdout.splitlines() if line.startswith(" ")
        ]  # the terminal wraps prose
        assert all(cell_len(line) <= 80 for line in tables), shown.stdout
        cut = [line for line in shown.stdout.splitlines() if "…" in line]
        assert all("in all" in line or "SHA-256" in line for line in cut), shown.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("budget:", "epsilon:"), "did you mean `budget`?"),
        (("product: small", "product: small\nepsilon: 1"), "did you mean `privacy.budget`?"),
        (("max_rejected:", 'sep: ";", max_rejected:'), "did you mean `delimiter`?"),
        (("    dimensions: [age, sex]", "    group_by: [age, sex]"), "did you mean `dimensions`?"),
        (("{from: 0, to: 99,", "{min: 0, max: 99,"), "did you mean `from`?"),
    ],
)
def test_what_other_programs_call_a_key_is_understood(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace(*change, 1))
    assert said in tabularium("check", spec).output


@pytest.mark.parametrize(("word", "meant"), [("approve", "ledger approve"), ("validate", "check")])
def test_what_people_type_for_a_command_is_understood(word: str, meant: str) -> None:
    done = tabularium(word, "census.yaml")
    assert done.exit_code == 2
    assert f"Did you mean '{meant}'?" in done.output


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_in_other_capitals_is_told(ending: str, tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("people.csv", f"people.{ending}"))
    rows = pd.read_csv(tmp_path / "people.csv", dtype=str).rename(columns={"age": "Age"})
    for others, said in (
        ({}, "'Age': spell it so under columns"),
        ({"sex": "gender"}, "the names under columns"),
    ):
        found = rows.rename(columns=others)
        (found.to_csv if ending == "csv" else found.to_parquet)(tmp_path / f"people.{ending}", index=False)
        line = tabularium("run", spec, "--home", home.path).stderr
        assert said in line
        assert "gender" not in line  # what else a header holds may be a record
        assert ("Age" in line) is (not others)
