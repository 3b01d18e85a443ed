"""The map of files on the page about architecture: what each package and some modules are, in their own words."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import ROOT

# Next to every package, the modules that readers look for and that the page does not name elsewhere.
MODULES = (
    "flows/operations/waiting.py",
    "ledger/charges.py",
    "ledger/measurement/measure_once.py",
    "ledger/officers.py",
    "mechanisms/errors.py",
    "mechanisms/inference/tree_least_squares.py",
    "mechanisms/mechanism.py",
    "mechanisms/registry.py",
    "tasks/dry_run.py",
    "tasks/publish/certificate/sections.py",
    "tasks/publish/guarantee.py",
    "tasks/runtime/home.py",
    "tasks/runtime/stage.py",
    "validations/release_spec/model.py",
    "validations/release_spec/privacy.py",
    "validations/suites/microdata.py",
    "validations/suites/published_tables.py",
)


def file_map(floor: str) -> str:
    """Return a row for each package below a folder, and for the modules of it that readers look for."""
    packages = (path.parent for path in (ROOT / floor).rglob("__init__.py"))
    places = {f"{path.relative_to(ROOT).as_posix()}/" for path in packages} - {f"{floor}/"}
    places |= {module for module in MODULES if module.startswith(f"{floor}/")}
    return "\n".join(["| file or folder | what it is |", "|---|---|", *map(_row, sorted(places))])


def _row(place: str) -> str:
    path = ROOT / (f"{place}__init__.py" if place.endswith("/") else place)
    first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    words = re.sub(r":\w+:`(\w+)`", r"`\1`", first).replace("``", "`").replace("|", "\\|")
    return f"| `{place}` | {words} |"
