"""Releases of different kinds, and their certificates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import AwaitingReview, Ledger
from tabularium.ledger.keys import make_key, public_hex
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Request, load
from tests.flows.release.scene import publish, write_scene

RULES = (
    '[{rule: row_count, max: 100000, noisy: {share: "1/10"}}, {rule: range, column: age, min: 0, max: 99}, '
    '{rule: nulls, column: sex, at_most: "1%", severity: warn}]'
)
MORE = """
about:
  title: People by area
  curator: {name: Office of Examples}
  region: {code: N, label: Nation}
histograms: [{name: ages, of: age, share: "1/10", largest: 600}]
invariants: [{name: all, count: 600, reason: "registry"}]
tuning: {release: last-years, certificate: "0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d"}
"""


YEARS = "    measures: {years: {sum: age, from: 0, to: 99}, mean_age: {mean: age, from: 0, to: 99}}\n"
CHOOSING = (
    "    mechanism: structure_first\n    parameters: {largest_count: 4096, boost: true}\n    dimensions:"
)


def enrol(folder: Path, home: Home) -> Ed25519PrivateKey:
    """Enrol an officer."""
    key = make_key(folder / "officer.pem")
    with Ledger.connect(home.ledger_url) as books:
        books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    return key


def approve(spec: Path, home: Home, key: Ed25519PrivateKey, revises: str | None = None) -> Request:
    request = Request.of(spec, None, None, home.path, revises=revises, same_input=True)
    with Ledger.connect(home.ledger_url) as books:
        books.approve("people", load(request).digest, by=key)
    return request


def everything(folder: Path) -> Path:
    """Pure ε, a hierarchy, a histogram, an invariant, rules and a tally, approved and reviewed, as a draft."""
    spec, home = write_scene(folder, rules=RULES)
    spec.write_text(spec.read_text().replace("releases}", "releases, review: officer}") + MORE)
    approve(spec, home, enrol(folder, home))
    try:
        publish(spec, home)
    except AwaitingReview:
        (draft,) = (folder / "drafts" / "small" / "2026").iterdir()
    return draft


def concentrated(folder: Path) -> Path:
    """ρ, with measures, withheld measurements and impossible cells, under an account whose δ is another."""
    spec, home = write_scene(folder, definition="zcdp", budget="1/50")
    spec.write_text(
        spec.read_text()
        .replace("1/1000000", "1/100000")
        .replace('    share: "1/3"\n', f'    share: "1/3"\n{YEARS}')
        .replace("releases}", 'releases, measurements: {withhold: "a test"}}')
        + 'impossible: [{cells: {age: [65-99], sex: ["1"]}, reason: "a law", records: {sex: "2"}}]\n'
    )
    return Path(publish(spec, home).folder)


def adaptive(folder: Path) -> Path:
    """Mechanisms that choose in view of the data, with disjoint cells, and errors that were bought."""
    spec, home = write_scene(folder, rows=3000, budget="2")
    text = spec.read_text().replace("    dimensions:", CHOOSING, 1)
    last = text.rindex("    dimensions:")
    spec.write_text(text[:last] + '    mechanism: sreb_gca\n    parameters: {share: "1/2"}\n' + text[last:])
    return Path(publish(spec, home).folder)


def revised(folder: Path) -> Path:
    """A revision, which an officer has to approve, of a release that was published before."""
    spec, home = write_scene(folder)
    publish(spec, home)
    text = spec.read_text()
    spec.write_text(text.replace('period: "2026"', 'period: "2026"\nrevises: late returns'))
    approve(spec, home, enrol(folder, home))
    return Path(publish(spec, home).folder)


SAMPLES: list[Callable[[Path], Path]] = [everything, concentrated, adaptive, revised]


def certificate(folder: Path) -> dict[str, Any]:
    """Return the certificate in a folder."""
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_bytes())
    return found
