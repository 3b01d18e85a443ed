"""What is built for others to install: a wheel that holds everything, and works where no source is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("mechanisms", "ledger", "validations", "tasks", "flows", "lab")
# What a Prefect repository of its own has, by convention: nothing of it takes the place of ours.
NEIGHBOURS = (
    "flows/__init__.py",
    "flows/release.py",
    "tasks.py",
    "mechanisms.py",
    "ledger/__init__.py",
    "validations.py",
)
# One worker: the wheel is built once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that ends well, in ``folder``."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built offline from a copy that no earlier build has left anything in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tabularium", source / "tabularium", symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]
    run(*pip, "--no-build-isolation", "--wheel-dir", folder, "./source", folder=folder)
    (made,) = folder.glob("tabularium_dp-*.whl")
    return made


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own, which finds the other libraries where this one has them."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    run(*pip, wheel, folder=place)
    (packages,) = place.glob("lib/python3*/site-packages")
    # A folder that is named like this has none of its own .pth files read: the source stays out of sight.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin" / "tabularium"


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    files = {
        f"tabularium/{path.relative_to(ROOT)}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert not files - held
    assert "tabularium/py.typed" in held
    assert not [name for name in held if not name.startswith(("tabularium/", "tabularium_dp-"))]
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_an_installed_command_works_beside_a_repository_with_the_same_names(
    program: Path, tmp_path: Path
) -> None:
    def tabularium(line: str) -> str:
        return run(program, *line.split(), folder=tmp_path).stdout

    for name in NEIGHBOURS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('of the repository beside it')")
    asked = "import tabularium.flows.release as ours; print(ours.__file__)"
    where = run(program.parent / "python", "-c", asked, folder=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(program.parents[1]), "not the installed package"
    assert tabularium("--version").startswith("tabularium ")
    tabularium("sample --rows 2000 --meshblocks 20 --out people.parquet")
    tabularium("ledger open people --cap 4 --unit record --home home")
    assert json.loads(tabularium("check people.yaml --json"))
    outcome = json.loads(tabularium("run people.yaml --home home --json"))
    assert outcome["status"] == "published"
    certificate = json.loads((Path(outcome["folder"]) / "certificate.json").read_text())
    assert certificate["software"]["tabularium-dp"]


@pytest.mark.audit
def test_an_installed_command_verifies_a_release_without_home_or_network(
    program: Path, tmp_path: Path
) -> None:
    """On a machine that never saw the ledger: a signed folder, a key, an export, and nobody to ask."""

    def tabularium(line: str, folder: Path) -> str:
        return run(program, *line.split(), folder=folder).stdout

    made = tmp_path / "agency"
    made.mkdir()
    for line in (
        "sample --rows 2000 --meshblocks 20 --out people.parquet",
        "ledger open people --cap 4 --unit record --home home",
        "ledger keys new officer.pem",
        "ledger keys enrol officer.pub.pem --officer Ro --key officer.pem --home home",
        "ledger release-key new --home home",
        "ledger release-key enrol home/release-key.pub.pem --agency Office --key officer.pem --home home",
    ):
        tabularium(line, made)
    outcome = json.loads(tabularium("run people.yaml --home home --json", made))
    tabularium("ledger export books.txt --home home", made)
    reader = tmp_path / "reader"
    shutil.copytree(outcome["folder"], reader / "release")
    shutil.copy(made / "books.txt", reader)
    shutil.copy(made / "home" / "release-key.pub.pem", reader / "agency.pem")
    shutil.rmtree(made)
    alone = [] if os.geteuid() else ["unshare", "--net"]
    alone += ["env", "--ignore-environment", f"HOME={reader / 'nowhere'}"]
    words = ["verify", "release", "--key", "agency.pem", "--export", "books.txt", "--strict", "--json"]
    found = json.loads(run(*alone, program, *words, folder=reader).stdout)
    (release,) = found["releases"]
    assert {each["outcome"] for each in release["findings"]} == {"checked"}
    assert {path.name for path in reader.iterdir()} == {"release", "books.txt", "agency.pem"}
