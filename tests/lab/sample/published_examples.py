"""The example specs, published from small samples: a folder each, and what adds up in it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from tabularium.lab.sample import write_sample
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import publish

Rows = list[dict[str, str]]


def publish_example(kind: str, stem: str, folder: Path, *, rows: int, spec: str = "") -> Path:
    """Write a sample, open the account that its spec asks for, and publish; return the release folder.

    ``spec`` is the text of another spec over the same files.
    """
    files = write_sample(kind, rows, folder / f"{stem}.parquet", meshblocks=7)  # type: ignore[arg-type]
    if spec:
        files.spec.write_text(spec, encoding="utf-8")
    loaded = load_spec(files.spec).spec
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as books:
        books.open_account(
            loaded.dataset,
            unit=loaded.privacy.unit.entity,
            relation=loaded.privacy.relation,
            definition=loaded.privacy.definition,
            cap=Fraction(loaded.privacy.budget),
            delta=loaded.privacy.delta,
        )
    return Path(publish(files.spec, home).folder)


def require_verified(folder: Path) -> None:
    """See that a stranger finds nothing wrong, and nothing of the tables that he could not check."""
    found = list(verify_release(Subject(folder)))
    assert [each for each in found if each.outcome == "failed"] == []
    assert not [each for each in found if each.outcome == "unchecked" and each.group == "Tables"]
    certificate = json.loads((folder / "certificate.json").read_bytes())
    rounding = certificate["agreement"].get("rounding", {"violations": {}})  # nothing to agree on
    assert not rounding["violations"]
    assert not any(each["violations"] for each in rounding.get("measures", {}).values())


def rows_of(folder: Path, table: str) -> Rows:
    """Return the rows of a published table."""
    with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def added(
    rows: Rows, by: tuple[str, ...], value: str = "count", level: str = ""
) -> dict[tuple[str, ...], int]:
    """Add up whole numbers over all columns but ``by``, of one level where a table has levels."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        if not level or row["level"] == level:
            found[tuple(row[name] for name in by)] += int(row[value])
    return dict(found)


def require_additive(folder: Path, table: str, along: str, code_list: str, value: str = "count") -> None:
    """See that every published area, or other code, is the sum of those below it."""
    with (folder / "codes" / code_list).open(encoding="utf-8", newline="") as file:
        parent = {row["code"]: row["parent"] for row in csv.DictReader(file)}
    rows = rows_of(folder, table)
    others = rows[0].keys() & {"sex", "age", "age_group", "status", "tenure"}
    shown = added(rows, (along, *others), value)
    below: dict[tuple[str, ...], int] = {}
    plain = [name for name in rows[0] if name in {"age", "age_group"}]
    shown = added(rows, (along, *others, *plain), value)
    for (code, *rest), number in shown.items():
        if (up := (parent[code], *rest)) in shown:
            below[up] = below.get(up, 0) + number
    assert below
    assert below == {key: shown[key] for key in below}


def read_certificate(folder: Path) -> Any:
    """Return the certificate of a release."""
    return json.loads((folder / "certificate.json").read_bytes())
