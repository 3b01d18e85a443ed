"""What ran: a digest of the files of this program as installed, its commit, and the packages beside it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from tabularium.mechanisms.errors import PublicationError
from tabularium.validations import certificate as said

OWN = ("flows", "ledger", "mechanisms", "tasks", "validations")
NOT_AUDITED = "mechanisms/queries"  # asks published numbers; no mechanism imports it
_ROOT = Path(__file__).parents[3]  # the package, which reaches each of these folders
_LEFT_OUT = {"__pycache__", ".compiled"}
_PROGRAM = "tabularium-dp"
_WITH_PREFECT = "prefect"
_PACKAGES = (
    _PROGRAM,
    "numpy",
    "cryptography",
    "duckdb",
    "ibis-framework",
    "pyarrow",
    _WITH_PREFECT,
    "great-expectations",
)
NAMED = frozenset({"python", *_PACKAGES})
"""What a certificate names of the software that made a release; Prefect where it is installed."""


def own_version() -> str:
    """Return the version of this program."""
    return metadata.version(_PROGRAM)


def software_versions() -> dict[str, str]:
    """Return the versions of what makes a release; Prefect's where it is installed.

    Raises
    ------
    PublicationError
        If one of them was not installed as a package: nobody could tell later what it was.
    """
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == _WITH_PREFECT:
                continue
            raise PublicationError(
                f"{name} is not installed as a package",
                where="software",
                hint="install Tabularium again with pip",
            ) from None
    return found


@lru_cache
def code_digest(*packages: str, without: str | None = None) -> str:
    """Return the SHA-256 over the files of these packages of ours: names and contents, in order of the names.

    Files in the folder ``without`` are left out. With all packages go the modules of the public API.

    It is taken over lines ``<SHA-256 of a file>  <its name>``, sorted by name, as ``sha256sum`` prints them.
    """
    lines = {}
    own = _ROOT.glob("*.py") if packages == OWN else ()
    for path in (*own, *(path for package in packages for path in (_ROOT / package).rglob("*"))):
        name = path.relative_to(_ROOT)
        if without is not None and name.is_relative_to(without):
            continue
        if path.is_file() and path.suffix != ".pyc" and not _LEFT_OUT & set(name.parts):
            lines[name.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(lines.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def audited_code() -> str:
    """Return the digest of the code that draws noise or judges draws, which audits are of."""
    return code_digest("mechanisms", without=NOT_AUDITED)


@lru_cache
def commit() -> str | None:
    """Return the git commit of the program, where it runs from a working copy; None where it is installed."""
    if not (_ROOT.parent / ".git").exists():
        return None
    try:
        told = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(_ROOT), "rev-parse", "HEAD"],  # noqa: S607 - where git lies is the machine's affair
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


@lru_cache
def packages_digest() -> tuple[str, int]:
    """Return the SHA-256 over lines ``name==version`` of all installed packages, sorted, and their number."""
    told = [each.metadata for each in metadata.distributions()]  # which every attribute reads anew
    found = sorted({f"{each['Name'].lower()}=={each['Version']}" for each in told if "Name" in each})
    return hashlib.sha256("".join(f"{line}\n" for line in found).encode()).hexdigest(), len(found)


def code_provenance() -> said.Code:
    """Return what a certificate says of the code that made it."""
    packages, number = packages_digest()
    return said.Code(
        digest=code_digest(*OWN),
        mechanisms=audited_code(),
        commit=commit(),
        packages=said.Packages(digest=packages, number=number),
    )


@lru_cache
def audits() -> dict[tuple[str, str], said.Audit]:
    """Return what the last recorded audit of every mechanism found, by its name and definition.

    It is read from ``audits.json``, beside this file.
    """
    found = json.loads(Path(__file__).with_name("audits.json").read_bytes())
    return {
        (name, definition): said.Audit.model_validate(audit)
        for name, by_definition in found.items()
        for definition, audit in by_definition.items()
    }
