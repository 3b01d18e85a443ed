"""Run releases in place on PostgreSQL that succeed and that fail, in one process with a real Prefect engine.

    python -m tests.flows.release.in_place_leak_driver FOLDER SERVER

``SERVER`` is the source of the spec, a table ``people`` with sentinels in it. The test that starts this
program then searches everything it left behind, and the log of the server.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from tabularium.flows.operations.prefect_api import own_server, settings_of
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tests.flows.release.leak_driver import attempt
from tests.tasks.engines import one_spec

BROKEN = "broken_people"
"""A view of the agency's own, of which reading a sentinel as a number is an error that quotes it."""


def scene(root: Path, name: str, source: str, **changes: str) -> tuple[Path, Path]:
    """Write spec and look-up, and open the account; return the spec and the home."""
    folder, home = root / "input" / name, Home.at(root / name)
    folder.mkdir(parents=True)
    (folder / "zones.csv").write_text(one_spec.ZONES)
    # So small a budget that noise hides any count.
    text = one_spec.SPEC.replace('budget: "1"', 'budget: "1/1000"').format(source=source)
    text = text.replace("rules:\n", 'rules:\n  - {rule: numbers, column: weight, at_most: "100%"}\n')
    for what, other in changes.items():
        assert f"{what}: " in text
        text = text.replace(*other.split(" -> "))
    (folder / "spec.yaml").write_text(f"{text}publication: {{folder: {home.path / 'releases'}}}\n")
    with Ledger.connect(home.ledger_url) as books:
        terms = {"unit": "person", "relation": "add-remove", "definition": "pure", "cap": Fraction(9)}
        books.open_account("survey", **terms)
    return folder / "spec.yaml", home.path


def main(root: Path, source: str) -> None:
    attempt("in place", *scene(root, "success", source))
    attempt(
        "invalid values",
        *scene(root, "invalid", source, max_rejected='max_rejected: "100%" -> max_rejected: 0'),
    )
    attempt("a view that fails", *scene(root, "view", source.replace("table: people", f"table: {BROKEN}")))


if __name__ == "__main__":
    with own_server() as server, settings_of(server.url, server.sign_in):
        main(Path(sys.argv[1]), sys.argv[2])
