"""Small inputs that once went wrong, each published and shown beside the right value.

    python -m benchmarks.bench_cases [--cases ../shared/cases] [NAME …]

A case is a folder with a spec and its data, or with a ``make.py`` that writes them; a table in the ``README.md``
above it says what is right. Each is copied, its account is opened, and it is run; of one without data only what
``check`` says is shown. What is right is for whoever reads to compare.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.release_spec.load import load_spec

CASES = Path(__file__).parents[2] / "shared" / "cases"
_ROW = re.compile(r"^\| ([\w -]+?)/? \|.*\| (.+?) \|$", re.MULTILINE)
_SHOWN = 12


def right_values(cases: Path) -> dict[str, str]:
    """Return what is right of each case, from the table beside the cases."""
    return dict(_ROW.findall((cases / "README.md").read_text()))


def came_of(case: Path) -> list[str]:
    """Return what becomes of a case: the rows of its tables, or the line that refuses it."""
    with tempfile.TemporaryDirectory(prefix="tabularium-case-") as made:
        folder = Path(made, case.name)
        shutil.copytree(case, folder, symlinks=True)
        if (folder / "make.py").exists():
            subprocess.run([sys.executable, "make.py"], cwd=folder, check=True, capture_output=True)
        spec, home = next(folder.glob("*.yaml"), None), Home.at(folder / "home")
        if spec is None:
            return ["no spec: run its script by hand"]
        try:
            loaded = load_spec(spec).spec
        except TabulariumError as error:
            return error.line().splitlines()[:_SHOWN]
        with Ledger.connect(home.ledger_url) as books:
            books.open_account(
                loaded.dataset,
                unit=loaded.privacy.protects,
                relation=loaded.privacy.relation,
                definition=loaded.privacy.definition,
                cap=loaded.privacy.budget * 2,
            )
        words = ["run", str(spec), "--home", str(home.path)]
        done = subprocess.run(
            [Path(sys.executable).with_name("tabularium"), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            refused = [line for line in done.stderr.splitlines() if line.startswith("error")]
            return refused or done.stderr.splitlines()[-2:]
        tables = sorted(folder.rglob("releases/*/*/*[0-9a-f]/*.csv"))
        return [line for table in tables for line in table.read_text().splitlines()[: _SHOWN + 1]]


def main() -> None:
    """Print each case with what is right and what came of it."""
    parser = argparse.ArgumentParser(description="Publish small inputs that once went wrong.")
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of folders; all without")
    asked = parser.parse_args()
    right = right_values(asked.cases)
    for case in sorted(path for path in asked.cases.iterdir() if path.is_dir()):
        if not asked.names or case.name in asked.names:
            print(f"{case.name}\n  right: {right.get(case.name, 'see the list of cases')}")
            print(*(f"  {line}" for line in came_of(case)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
