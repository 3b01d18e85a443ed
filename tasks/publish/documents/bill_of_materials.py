"""``bill-of-materials.cdx.json``: what software made a release, as CycloneDX 1.6.

That is Tabularium, the Python that ran it, and every distribution that Tabularium's requirements reach, each
with its version and the licence that its metadata give. Nothing is asked of the network, and nothing is
named that is only installed beside.
"""

from __future__ import annotations

import platform
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import License

PRODUCT = "tabularium-dp"
_ASKED = frozenset({"postgres", "s3"})  # extras of ours that a release may have run with
_NAMESPACE = uuid.UUID("7f0c4f0e-4a0b-5b7e-9d5a-6b1f0d7c2e11")  # of the serial numbers; any fixed one does
_LICENCE_LENGTH = 60  # characters; what is longer is the text of a licence, not its name

Found = dict[str, metadata.Distribution]


def bill_of_materials(aside: Path, told: Mapping[str, Any], last: Path | None) -> bytes:
    """Return the bill of materials of the process that publishes.

    It depends on the certificate and on what is installed alone: the serial number is made from the release
    and the list, the time is the certificate's.

    Parameters
    ----------
    told
        The certificate, of which the release id and the time are used.
    """
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    found, needs = _reached()
    parts = {name: _component(each) for name, each in sorted(found.items())}
    whole = parts.pop(PRODUCT)
    python = Component(
        name=platform.python_implementation(),
        version=platform.python_version(),
        type=ComponentType.PLATFORM,
        bom_ref="python",
    )
    listed = "\n".join([told["release_id"], *(str(each.purl) for each in (whole, *parts.values()))])
    bom = Bom(
        components=[python, *parts.values()],
        serial_number=uuid.uuid5(_NAMESPACE, f"{listed}\npython {python.version}"),
        metadata=BomMetaData(
            component=whole,
            timestamp=datetime.fromisoformat(told["created"]),
            properties=[Property(name="tabularium:release", value=told["release_id"])],
        ),
    )
    parts[PRODUCT] = whole
    for name, wanted in needs.items():
        bom.register_dependency(parts[name], [parts[each] for each in sorted(wanted) if each != name])
    bom.register_dependency(whole, [python])
    return (JsonV1Dot6(bom).output_as_string(indent=2) + "\n").encode()


def _reached() -> tuple[Found, dict[str, set[str]]]:
    """Return every distribution that the product's requirements reach, and which asks for which.

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
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for each in _required(found[name], extras):
            wanted = canonicalize_name(each.name)
            needs.setdefault(name, set()).add(wanted)
            open_.append((wanted, frozenset(each.extras)))
    return found, {name: wanted & found.keys() for name, wanted in sorted(needs.items())}


def _required(distribution: metadata.Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in distribution.requires or ():
        required = Requirement(line)
        marker = required.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield required


def _component(distribution: metadata.Distribution) -> Component:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    name = canonicalize_name(distribution.name)
    purl = PackageURL("pypi", name=name, version=distribution.version)
    return Component(
        name=name,
        version=distribution.version,
        type=ComponentType.APPLICATION if name == PRODUCT else ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        licenses=_licences(distribution),
    )


def _licences(distribution: metadata.Distribution) -> list[License]:
    """Return the licence that the metadata name: the expression, else the classifiers, else a short text."""
    from cyclonedx.contrib.license.factories import LicenseFactory

    factory = LicenseFactory()
    about = distribution.metadata
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
