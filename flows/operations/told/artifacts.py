"""What Prefect's UI shows of a published release.

All of it stands in the published folder, which is public, or is what the ledger says of the account. The
notes of a run are not among it: whether a rule that only warns held is for the operators at home.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from flows.operations.told.budget_warnings import left_and_cap
from flows.release_chain import Outcome
from tasks.publish.release_folder import CERTIFICATE
from tasks.runtime.home import Home
from tasks.sign.statement import STATEMENT

_BAR = 24


def show_release(outcome: Outcome, home: Home) -> None:
    """Make the artifacts of the flow run that asks: what was published, its tables, what is left, where."""
    from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

    folder = Path(outcome.folder)
    certificate = json.loads((folder / CERTIFICATE).read_text())
    product, period = certificate["product"], certificate["period"]
    create_markdown_artifact(
        release_markdown(folder, certificate, outcome.status, home),
        key=f"release-{product}",
        description=f"{product}, {period}: {outcome.status}",
    )
    create_table_artifact(
        list(table_rows(folder, certificate)),
        key=f"tables-{product}",
        description=f"{product}, {period}: cells and typical margins of error",
    )
    if (report := folder / "report.html").exists():
        create_link_artifact(report.as_uri(), key=f"report-{product}", link_text=f"{product}, {period}")


def release_markdown(folder: Path, certificate: dict[str, Any], status: str, home: Home) -> str:
    """Return what is said of a release as a whole."""
    told = certificate["ledger"]
    unit = "ρ" if told["definition"] == "zcdp" else "ε"
    lines = [
        f"# {certificate['product']}, {certificate['period']}: {status}",
        "",
        f"In `{folder}`, release `{certificate['release_id']}`, made {certificate['created']}, "
        f"{'signed' if (folder / STATEMENT).exists() else 'unsigned'}.",
        "",
        "## Budget",
        "",
        _cost(told, unit),
        "",
        _budget(home, told["account"], unit),
        "",
        "## Warnings",
        "",
        *_bullets(list(warnings(certificate)) or ["none"]),
        "",
        "## Outside the guarantee",
        "",
        *_bullets([fact["what"] for fact in certificate["outside_the_guarantee"]]),
        "",
        "## Files",
        "",
        "| file | SHA-256 |",
        "|---|---|",
        *(f"| `{name}` | `{digest}` |" for name, digest in sorted(certificate["files"].items())),
    ]
    return "\n".join(lines) + "\n"


def table_rows(folder: Path, certificate: dict[str, Any]) -> Iterator[dict[str, str | int]]:
    """Yield a row for each level of each table: its cells, and the margin that half of them do not exceed."""
    for name, about in certificate["tables"].items():
        levels = _margins(folder, name)
        if not levels:
            yield {"table": name, "level": "", "cells": about["rows"], "typical margin": ""}
        for level, margins in levels.items():
            known = [margin for margin in margins if margin is not None]
            yield {
                "table": name,
                "level": level,
                "cells": len(margins),
                "typical margin": f"± {median(known):g}" if known else "unknown",
            }


def warnings(certificate: dict[str, Any]) -> Iterator[str]:
    """Yield what a reader of the release is warned of in its certificate."""
    for name, about in certificate["tables"].items():
        for failed in about["failed_checks"]:
            yield f"table {name}: {failed['count']:,} cells fail a check: {failed['check']}"
    for invariant in certificate["invariants"]:
        if invariant.get("beyond_chance"):
            yield (
                f"invariant {invariant['name']}: the measurements contradict it at "
                f"{invariant['beyond_chance']:,} of {invariant['compared']:,} numbers"
            )
    if certificate["ledger"]["attempts"] > 1:
        yield f"its noise was drawn in {certificate['ledger']['attempts']} attempts"
    if (reason := certificate["measurements"]["withheld"]) is not None:
        yield f"the noisy measurements are withheld: {reason}"


def bar(part: Fraction, whole: Fraction) -> str:
    """Return a bar that is ``part/whole`` full."""
    full = int(_BAR * part / whole) if whole else 0
    return "█" * full + "░" * (_BAR - full)


def _cost(told: dict[str, Any], unit: str) -> str:
    if told["rests_on"] is not None:
        return (
            f"This release is made from the measurements of `{told['rests_on']['release_id']}`, and was free."
        )
    cost = Fraction(told["amount"]) + sum(Fraction(each["amount"]) for each in told["tally_charges"])
    return f"This release cost {unit} = {cost} of account `{told['account']}`."


def _budget(home: Home, account: str, unit: str) -> str:
    left, cap = left_and_cap(home, account)
    return f"`{bar(cap - left, cap)}` {unit} = {cap - left} spent of {cap}, {left} left"


def _bullets(texts: list[str]) -> list[str]:
    return [f"- {text}" for text in texts]


def _margins(folder: Path, table: str) -> dict[str, list[float | None]]:
    """Return the margins of a published table by level; nothing where it has none, as a histogram."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    parquet, text = folder / f"{table}.parquet", folder / f"{table}.csv"
    if parquet.exists():
        found = pa.parquet.read_table(parquet)
    elif text.exists():
        found = pa.csv.read_csv(text)
    else:
        return {}
    if "margin" not in found.column_names:
        return {}
    of = found["level"].to_pylist() if "level" in found.column_names else [""] * found.num_rows
    levels: dict[str, list[float | None]] = {}
    for level, margin in zip(of, found["margin"].to_pylist(), strict=True):
        levels.setdefault(str(level), []).append(margin)
    return levels
