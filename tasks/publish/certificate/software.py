"""The software that made a release: digest and commit of this program, its packages, a bill of materials.

``bill-of-materials.cdx.json`` (CycloneDX 1.6) names Tabularium, the Python that ran it, and every
distribution that Tabularium requires, directly or not, each with its version and the licence in its metadata.
It is made without the network, and leaves out what only happens to be installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import TypeAdapter

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.runtime.extras import DISTRIBUTION, EXTRAS
from tabularium.validations import certificate as schema
from tabularium.validations.certificate import Certificate

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import License

OWN = ("flows", "ledger", "mechanisms", "tasks", "validations")
NOT_AUDITED = "mechanisms/queries"  # asks published numbers; no mechanism imports it
_ROOT = Path(__file__).parents[3]  # the package, which reaches each of these folders
_LEFT_OUT = {"__pycache__", ".compiled"}
_WITH_PREFECT = "prefect"
_PACKAGES = (
    DISTRIBUTION,
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
    return metadata.version(DISTRIBUTION)


def software_versions() -> dict[str, str]:
    """Return the versions of the packages that make a release; Prefect's where it is installed.

    Raises
    ------
    PublicationError
        If one of them was not installed as a package: nobody could tell later what it was.
    """
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == _WITH_PREFECT:
                continue
            raise PublicationError(
                f"{name} is not installed as a package",
                where="software",
                hint="install Tabularium again with pip",
            ) from None
    return versions


@lru_cache
def code_digest(*packages: str, without: str | None = None) -> str:
    """Return the SHA-256 over the files of these packages: names and contents, in order of the names.

    Files in the folder ``without`` are left out. With all packages go the modules of the public API.

    It is taken over lines ``<SHA-256 of a file>  <its name>``, sorted by name, as ``sha256sum`` prints them.
    """
    lines = {}
    paths = _ROOT.glob("*.py") if packages == OWN else ()
    for path in (*paths, *(path for package in packages for path in (_ROOT / package).rglob("*"))):
        name = path.relative_to(_ROOT)
        if without is not None and name.is_relative_to(without):
            continue
        if path.is_file() and path.suffix != ".pyc" and not _LEFT_OUT & set(name.parts):
            lines[name.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(lines.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def audited_code() -> str:
    """Return the digest of the audited code, which draws noise or judges draws."""
    return code_digest("mechanisms", without=NOT_AUDITED)


@lru_cache
def commit() -> str | None:
    """Return the git commit of the program, where it runs from a working copy; None where it is installed."""
    if not (_ROOT.parent / ".git").exists():
        return None
    try:
        head = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(_ROOT), "rev-parse", "HEAD"],  # noqa: S607 - where git lies is the machine's affair
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip()


@lru_cache
def packages_digest() -> tuple[str, int]:
    """Return the SHA-256 over lines ``name==version`` of all installed packages, sorted, and their number."""
    documents = [
        distribution.metadata for distribution in metadata.distributions()
    ]  # which every attribute reads anew
    packages = sorted(
        {f"{about['Name'].lower()}=={about['Version']}" for about in documents if "Name" in about}
    )
    return hashlib.sha256("".join(f"{line}\n" for line in packages).encode()).hexdigest(), len(packages)


def code_provenance() -> schema.Code:
    """Return the code section of a certificate."""
    packages, number = packages_digest()
    return schema.Code(
        digest=code_digest(*OWN),
        mechanisms=audited_code(),
        commit=commit(),
        packages=schema.Packages(digest=packages, number=number),
    )


@lru_cache
def audits() -> dict[tuple[str, str], schema.Audit]:
    """Return the last recorded audit of every mechanism, by name and definition.

    It is read from ``audits.json`` in this folder.
    """
    figures = json.loads(Path(__file__).with_name("audits.json").read_bytes())
    return {
        (name, definition): schema.Audit.model_validate(audit)
        for name, by_definition in figures.items()
        for definition, audit in by_definition.items()
    }


_ASKED = frozenset(EXTRAS)  # that a release may have run with
_NAMESPACE = uuid.UUID("7f0c4f0e-4a0b-5b7e-9d5a-6b1f0d7c2e11")  # of the serial numbers; any fixed one does
_LICENCE_LENGTH = 60  # characters; what is longer is the text of a licence, not its name

Found = dict[str, metadata.PackageMetadata]
Bill = tuple[dict[str, Any], list[str]]
_BILL: TypeAdapter[Bill] = TypeAdapter(Bill)
_MADE: dict[str, Bill] = {}


def bill_of_materials(aside: Path, certificate: Certificate, last: Path | None) -> bytes:
    """Return the bill of materials of the process that publishes.

    It depends on the certificate and on what is installed alone: the serial number is made from the release
    and the list, the time is the certificate's.

    Parameters
    ----------
    certificate
        The certificate, of which the release id and the time are used.
    """
    bill, listed = of_this_installation()
    serial = uuid.uuid5(_NAMESPACE, "\n".join([certificate.release_id, *listed]))
    about = {
        **bill["metadata"],
        "timestamp": datetime.fromisoformat(certificate.created).isoformat(),
        "properties": [{"name": "tabularium:release", "value": certificate.release_id}],
    }
    return (json.dumps({**bill, "serialNumber": serial.urn, "metadata": about}, indent=2) + "\n").encode()


def of_this_installation(cache: Path | None = None) -> Bill:
    """Return a bill without the fields of a release, and the list of its components.

    The metadata of some two hundred distributions are read once for each interpreter and set of installed
    packages, and what comes of them is kept in memory, and in the folder ``cache`` if one is given.
    """
    parts = (
        platform.python_implementation(),
        platform.python_version(),
        packages_digest()[0],
        json.dumps(metadata.metadata(DISTRIBUTION).json),
        hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
    )
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if key not in _MADE:
        file = None if cache is None else cache / f"bill-of-materials-{key}.json"
        kept = None if file is None else _read(file)
        _MADE[key] = kept or _make()
        if file is not None and kept is None:
            _keep(file, _MADE[key])
    return _MADE[key]


def _read(file: Path) -> Bill | None:
    """Return the bill in a file; None where it is missing or damaged."""
    with suppress(OSError, ValueError):
        bill, listed = _BILL.validate_json(file.read_bytes())
        if isinstance(bill.get("metadata"), dict):
            return bill, listed
    return None


def _keep(file: Path, bill: Bill) -> None:
    """Write a bill completely or not at all; without it, the next process makes it again."""
    aside = file.with_suffix(f".{os.getpid()}.partial")
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        aside.write_text(json.dumps(bill), encoding="utf-8")
        aside.replace(file)


def _make() -> Bill:
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    reached, needs = _reached()
    parts = {name: _component(name, about) for name, about in sorted(reached.items())}
    product = parts.pop(DISTRIBUTION)
    python = Component(
        name=platform.python_implementation(),
        version=platform.python_version(),
        type=ComponentType.PLATFORM,
        bom_ref="python",
    )
    listed = [*(str(part.purl) for part in (product, *parts.values())), f"python {python.version}"]
    bom = Bom(
        components=[python, *parts.values()],
        serial_number=_NAMESPACE,
        metadata=BomMetaData(
            component=product,
            timestamp=datetime.fromtimestamp(0, UTC),
            properties=[Property(name="tabularium:release", value="")],
        ),
    )
    parts[DISTRIBUTION] = product
    for name, wanted in needs.items():
        bom.register_dependency(parts[name], [parts[needed] for needed in sorted(wanted) if needed != name])
    bom.register_dependency(product, [python])
    bill: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    return bill, listed


def _reached() -> tuple[Found, dict[str, set[str]]]:
    """Return the metadata of every required distribution, and the requirements between them.

    Names are canonical. What a requirement's marker rules out here, or what only an extra asks for that is
    not installed, is not there.
    """
    reached: Found = {}
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    open_: list[tuple[str, frozenset[str]]] = [(DISTRIBUTION, _ASKED)]
    while open_:
        name, extras = open_.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            if name not in reached:
                reached[name] = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        for requirement in _required(reached[name], extras):
            wanted = canonicalize_name(requirement.name)
            if wanted != name:  # an extra of its own
                needs.setdefault(name, set()).add(wanted)
            open_.append((wanted, frozenset(requirement.extras)))
    return reached, {name: wanted & reached.keys() for name, wanted in sorted(needs.items())}


def _required(about: metadata.PackageMetadata, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in about.get_all("Requires-Dist") or ():
        required = Requirement(line)
        marker = required.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield required


def _component(name: str, about: metadata.PackageMetadata) -> Component:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    version = about["Version"]
    purl = PackageURL("pypi", name=name, version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION if name == DISTRIBUTION else ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        licenses=_licences(about),
    )


def _licences(about: metadata.PackageMetadata) -> list[License]:
    """Return the licence that the metadata name: the expression, else the classifiers, else a short text."""
    from cyclonedx.contrib.license.factories import LicenseFactory

    factory = LicenseFactory()
    if "License-Expression" in about:
        return [factory.make_from_string(about["License-Expression"])]
    classifiers = [
        classifier.rpartition(" :: ")[2]
        for classifier in about.get_all("Classifier") or ()
        if classifier.startswith("License :: ") and classifier != "License :: OSI Approved"
    ]
    if classifiers:
        return [factory.make_with_name(classifier) for classifier in sorted(set(classifiers))]
    text = about["License"].strip() if "License" in about else ""
    named = text and len(text) <= _LICENCE_LENGTH and "\n" not in text and text != "UNKNOWN"
    return [factory.make_from_string(text)] if named else []
