"""Nothing that leaves the home tells whether two products were made from the same input.

If anything did, it would say with certainty that nobody was added or left in between. What the three products
of :mod:`tests.flows.release.equality_driver` left is compared field by field: whatever is the same for the two
of one input must be the same for the one with a record more.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.tasks.runtime.home import Home
from tests.flows.release.equality_driver import PRODUCTS
from tests.plain_suites import CUSTOMS

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("equality")]
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
# Long enough that no two are the same by chance: digests, keys, identifiers, exact numbers.
_TOKEN = re.compile(r"[0-9A-Za-z_+/=-]{16,}|\d{9,}")


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the three products left: release folders, one home, Prefect's database."""
    root = tmp_path_factory.mktemp("equality")
    (root / "user").mkdir()
    environment = {
        **os.environ,
        "HOME": str(root / "user"),
        "PREFECT_HOME": str(root / "user" / "prefect"),
        "PYTHONPATH": f"{CUSTOMS}{os.pathsep}{ROOT}",
        "PREFECT_LOGGING_LEVEL": "DEBUG",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.release.equality_driver", str(root)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert [f"{product} published" in done.stdout for product in PRODUCTS] == [True] * 3, done.stderr[-3000:]
    assert "refused: refused: data rules" in done.stdout
    assert "connection attempts failed" not in done.stderr  # the server ended once it had all events and logs
    with Ledger.connect(Home(root / "agency" / "home").ledger_url) as books:
        export(books, root / "books.txt")
    return root


def release_folder(root: Path, product: str) -> Path:
    (certificate,) = (root / product / "releases").rglob("certificate.json")
    return certificate.parent


def entries(root: Path, product: str) -> list[dict[str, Any]]:
    """The product's entries of an exported ledger."""
    lines = (root / "books.txt").read_text().splitlines()
    found = [json.loads(line[line.index("{") :]) for line in lines if f'"product":"{product}"' in line]
    assert [entry["kind"] for entry in found] == ["reserved", "drawing", "measured", "published"]
    return found


def prefect_rows(root: Path, product: str) -> list[tuple[str, str]]:
    """Every row of Prefect's database that is about the product's run: table and text."""
    with sqlite3.connect(root / "user" / "prefect" / "prefect.db") as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = [(name, repr(row)) for name in tables for row in connection.execute(f'SELECT * FROM "{name}"')]
        runs = {
            run
            for run, parameters in connection.execute("SELECT id, parameters FROM flow_run")
            if f"/{product}/spec.yaml" in parameters and "people.csv" not in parameters
        }
        (run,) = runs
        of_tasks = connection.execute("SELECT id FROM task_run WHERE flow_run_id = ?", (run,)).fetchall()
    ours = {run, *(task for (task,) in of_tasks)}
    assert len(ours) > 10, "Prefect has heard of the stages"
    return [(name, text) for name, text in rows if any(one in text for one in ours)]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value that stands in nested lists and dictionaries, with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}/{key}")
    elif isinstance(value, list):
        yield path, f"{len(value)} of them"
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{place}")
    else:
        yield path, _TIME.sub("a time", str(value))


def fields(root: Path, product: str) -> dict[str, str]:
    """Every field of the certificate, the entries and the tables, and the names of the files."""
    folder = release_folder(root, product)
    found = dict(leaves(json.loads((folder / "certificate.json").read_text()), "certificate"))
    found.update(leaves(entries(root, product), "ledger"))
    for file in sorted(folder.rglob("*")):
        found[f"file {file.relative_to(folder)}"] = file.suffix
        if file.suffix == ".csv":
            lines = file.read_text().splitlines()
            found.update(leaves([line.split(",") for line in lines], f"table {file.name}"))
    return found | {"folder": folder.name}


def told(fields_of: dict[str, dict[str, str]]) -> list[str]:
    """The places where the first two products agree and the third does not, or the other way round."""
    first, equal, other = (fields_of[product] for product in PRODUCTS)
    return [
        place
        for place in sorted({*first, *equal, *other})
        if (first.get(place) == equal.get(place)) != (first.get(place) == other.get(place))
    ]


def test_the_comparison_finds_what_tells_the_inputs_apart() -> None:
    """A digest of the input, a count, and whether there is a field at all."""
    common = {"product": "p", "place": "x"}
    for lie in ({"digest": "a" * 64}, {"rows": "600"}, {}):
        other = dict.fromkeys(lie, "b")
        assert told({"first": common | lie, "equal": common | lie, "other": common | other}) == [*lie]
    assert told({"first": common, "equal": common, "other": common | {"more": "1"}}) == ["more"]


def test_no_field_of_certificates_entries_tables_or_names_tells(aftermath: Path) -> None:
    found = {product: fields(aftermath, product) for product in PRODUCTS}
    assert all(len(fields) > 200 for fields in found.values())
    assert told(found) == []


def test_no_word_that_anything_holds_tells(aftermath: Path) -> None:
    """Prefect's rows, events and logs, and all files, searched for digests and identifiers that return."""
    words = {}
    for product in PRODUCTS:
        folder = release_folder(aftermath, product)
        texts = [text for _table, text in prefect_rows(aftermath, product)]
        texts += [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
        texts += [json.dumps(entry) for entry in entries(aftermath, product)]
        words[product] = {word for text in texts for word in _TOKEN.findall(text)}
        assert folder.name in words[product]
    first, equal, other = (words[product] for product in PRODUCTS)
    assert first & equal == first & other


def test_prefect_is_not_told_that_another_input_was_bound(aftermath: Path) -> None:
    """The diagnosis at home is."""
    stored = b"".join(path.read_bytes() for path in (aftermath / "user" / "prefect").glob("prefect.db*"))
    assert b"refused: data rules" in stored
    assert b"another input" not in stored
    (diagnosis,) = (aftermath / "agency" / "home" / "diagnoses").iterdir()
    assert "another input was bound" in diagnosis.read_text()


def test_prefect_saw_the_same_stages_and_states(aftermath: Path) -> None:
    """Counted by table; events and logs come as they come, and are searched above."""
    seen = {}
    for product in PRODUCTS:
        rows = prefect_rows(aftermath, product)
        seen[product] = Counter(table for table, _text in rows if table in ("task_run", "flow_run"))
        assert {"events", "log"} <= {table for table, _text in rows}
    assert seen["first"] == seen["equal"] == seen["other"]
