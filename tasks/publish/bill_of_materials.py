"""``bill-of-materials.cdx.json``: what software made a release, as CycloneDX 1.6.

That is Tabularium, the Python that ran it, and every distribution that Tabularium's requirements reach, each
with its version and the licence that its metadata give. Nothing is asked of the network, and nothing is
named that is only installed beside.
"""

from __future__ import annotations

import json
import platform
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tabularium.tasks.runtime.extras import EXTRAS
from tabularium.validations.certificate import Certificate

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import License

PRODUCT = "tabularium-dp"
_ASKED = frozenset(EXTRAS)  # that a release may have run with
_NAMESPACE = uuid.UUID("7f0c4f0e-4a0b-5b7e-9d5a-6b1f0d7c2e11")  # of the serial numbers; any fixed one does
_LICENCE_LENGTH = 60  # characters; what is longer is the text of a licence, not its name

Found = dict[str, metadata.PackageMetadata]


def bill_of_materials(aside: Path, told: Certificate, last: Path | None) -> bytes:
    """Return the bill of materials of the process that publishes.

    It depends on the certificate and on what is installed alone: the serial number is made from the release
    and the list, the time is the certificate's.

    Parameters
    ----------
    told
        The certificate, of which the release id and the time are used.
    """
    bill, listed = _of_this_process()
    serial = uuid.uuid5(_NAMESPACE, "\n".join([told.release_id, *listed]))
    about = {
        **bill["metadata"],
        "timestamp": datetime.fromisoformat(told.created).isoformat(),
        "properties": [{"name": "tabularium:release", "value": told.release_id}],
    }
    return (json.dumps({**bill, "serialNumber": serial.urn, "metadata": about}, indent=2) + "\n").encode()


@lru_cache
def _of_this_process() -> tuple[dict[str, Any], list[str]]:
    """Return the bill of no release, whose own fields are yet to be filled in, and the list that it is of.

    The metadata of some two hundred distributions are read once: a process goes on with what it has loaded.
    """
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    found, needs = _reached()
    parts = {name: _component(name, each) for name, each in sorted(found.items())}
    whole = parts.pop(PRODUCT)
    python = Component(
        name=platform.python_implementation(),
        version=platform.python_version(),
        type=ComponentType.PLATFORM,
        bom_ref="python",
    )
    listed = [*(str(each.purl) for each in (whole, *parts.values())), f"python {python.version}"]
    bom = Bom(
        components=[python, *parts.values()],
        serial_number=_NAMESPACE,
        metadata=BomMetaData(
            component=whole,
            timestamp=datetime.fromtimestamp(0, UTC),
            properties=[Property(name="tabularium:release", value="")],
        ),
    )
    parts[PRODUCT] = whole
    for name, wanted in needs.items():
        bom.register_dependency(parts[name], [parts[each] for each in sorted(wanted) if each != name])
    bom.register_dependency(whole, [python])
    bill: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    return bill, listed


def _reached() -> tuple[Found, dict[str, set[str]]]:
    """Return the metadata of every distribution that our requirements reach, and which asks for which.

    Names are canonical. What a requirement's marker rules out here, or what only an extra asks for that is
    not installed, is not there.
    """
    found: Found = {}
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    open_: list[tuple[str, frozenset[str]]] = [(PRODUCT, _ASKED)]
    while open_:
        name, extras = open_.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            if name not in found:
                found[name] = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        for each in _required(found[name], extras):
            wanted = canonicalize_name(each.name)
            if wanted != name:  # an extra of its own
                needs.setdefault(name, set()).add(wanted)
            open_.append((wanted, frozenset(each.extras)))
    return found, {name: wanted & found.keys() for name, wanted in sorted(needs.items())}


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
        type=ComponentType.APPLICATION if name == PRODUCT else ComponentType.LIBRARY,
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
        each.rpartition(" :: ")[2]
        for each in about.get_all("Classifier") or ()
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    if classifiers:
        return [factory.make_with_name(each) for each in sorted(set(classifiers))]
    text = about["License"].strip() if "License" in about else ""
    named = text and len(text) <= _LICENCE_LENGTH and "\n" not in text and text != "UNKNOWN"
    return [factory.make_from_string(text)] if named else []
