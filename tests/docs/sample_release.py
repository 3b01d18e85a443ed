"""A small release for reviewers to try their hands on, with the agency's key and an export of its ledger.

``python -m tests.docs.sample_release build/sample-release.zip`` makes it by the commands that an agency would
type, from the product's own sample. Nobody in it exists.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, make_archive
from tempfile import TemporaryDirectory

NAME = "sample-release"
COMMANDS = """\
tabularium sample --rows 2000 --meshblocks 4 --out people.parquet
tabularium ledger keys new officer.pem
tabularium ledger keys enrol officer.pub.pem --officer "A. Sato" --key officer.pem
tabularium ledger open people --cap 4 --unit record --needs-approval --key officer.pem
tabularium ledger release-key new
tabularium ledger release-key enrol home/release-key.pub.pem --agency "Sample Statistics" --key officer.pem
tabularium ledger approve people.yaml --key officer.pem --yes
tabularium run people.yaml
tabularium ledger export ledger.txt
"""


def make(folder: Path) -> Path:
    """Make the folder ``sample-release`` below an existing one; return it.

    It holds ``release``, ``agency.pub.pem`` and ``ledger.txt``.
    """
    with TemporaryDirectory() as name:
        place = Path(name)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TABULARIUM_")}
        environment |= {
            "TABULARIUM_HOME": str(place / "home"),
            "TABULARIUM_WITNESS": str(place / "witness"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", "-ec", COMMANDS],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        made = folder / NAME
        made.mkdir()
        (release,) = (
            each.parent
            for each in place.glob("releases/people/*/*/certificate.json")
            if not each.parent.is_symlink()
        )
        copytree(release, made / "release")
        (made / "agency.pub.pem").write_bytes((place / "home" / "release-key.pub.pem").read_bytes())
        (made / "ledger.txt").write_bytes((place / "ledger.txt").read_bytes())
    return made


def main() -> None:
    """Write it as a ZIP file under the name that is given."""
    target = Path(sys.argv[1]).absolute()
    with TemporaryDirectory() as name:
        make(Path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        make_archive(str(target.with_suffix("")), "zip", name, NAME)
    print(f"{target.stat().st_size:,} bytes: {target}")


if __name__ == "__main__":
    main()
