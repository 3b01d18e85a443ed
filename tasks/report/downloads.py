"""The files of a release as a page beside them links to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tabularium.validations.certificate import Certificate
from tabularium.validations.domains import known_marginals as prior_tables
from tabularium.validations.spec.publication_formats import kind_of

MOST_FILES = 60
"""Files that are listed; what is more lies in the folder, and in the certificate."""

_DOCUMENTS = {
    ".cdx.json": "bill of materials (CycloneDX)",
    ".html": "report, for people",
    ".yaml": "entry for the registry of deployments (YAML)",
    ".json": "JSON",
    ".txt": "text",
}
_FOLDERS = {
    "codes": "code list",
    "figures": "public numbers that rates are over",
    "invariants": "public numbers that the tables show exactly",
    "measurements": "noisy measurements before post-processing",
    prior_tables.FOLDER: "of the earlier release that a table was drawn towards",
}


@dataclass(frozen=True)
class Download:
    """One file: its name, an address relative to the folder, what it is and how large."""

    name: str
    address: str
    what: str
    size: int


def downloads(folder: Path, told: Certificate) -> list[Download]:
    """Return the files that a certificate names, tables first."""
    names = sorted(
        told.files, key=lambda name: (name.count("/"), name.partition("/")[0] == "measurements", name)
    )
    return [
        Download(name, quote(name), _what(name), (folder / name).stat().st_size)
        for name in names[:MOST_FILES]
    ]


def _what(name: str) -> str:
    place, _, rest = name.rpartition("/")
    kind = kind_of(rest or name)
    words = next((said for ending, said in _DOCUMENTS.items() if name.endswith(ending)), "file")
    words = words if kind is None else kind.words
    folder = place.partition("/")[0]
    return f"{_FOLDERS[folder]} ({words})" if folder in _FOLDERS else words
