"""What `tabularium check` answers: every problem of a spec, or what it will publish, at what price, how well.

The expected accuracy is that of the measurements before post-processing, and stated only for mechanisms
whose noise does not depend on the data.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mechanisms.inference import laplace_margin
from validations.loading import Loaded, examine
from validations.problems import Problem, listed
from validations.spec import RowCountRule, Table, UniqueRule

if TYPE_CHECKING:
    from rich.console import RenderableType

_PLAIN_NOISE = ("identity", "cells")  # one discrete Laplace draw per cell
_LARGE_EPSILON = 10


@dataclass(frozen=True)
class LevelSummary:
    """One measurement: a table at one level.

    Attributes
    ----------
    level
        Name of the level; "" for a table without a hierarchy.
    cells
        Number of cells.
    epsilon
        Privacy loss for one record.
    scale, margin
        Scale of the noise in records, and the smallest m such that a measured cell is within ±m of the truth
        at the spec's level of confidence; None when they depend on the data.
    """

    level: str
    cells: int
    epsilon: Fraction
    scale: float | None
    margin: int | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "level": self.level,
            "cells": self.cells,
            "epsilon_per_record": str(self.epsilon),
            "scale": self.scale,
            "margin": self.margin,
        }


@dataclass(frozen=True)
class TableSummary:
    """One table."""

    name: str
    dimensions: dict[str, int]  # name -> cells along it, at the leaves
    mechanism: str
    share: Fraction
    levels: tuple[LevelSummary, ...]

    @property
    def cells(self) -> int:
        """Cells over all measured levels."""
        return sum(level.cells for level in self.levels)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "dimensions": self.dimensions,
            "mechanism": self.mechanism,
            "share": str(self.share),
            "cells": self.cells,
            "levels": [level.as_json() for level in self.levels],
        }


@dataclass(frozen=True)
class Summary:
    """What a spec will publish, and at what price."""

    product: str
    dataset: str
    period: str
    unit: str
    max_contributions: int
    relation: str
    budget: Fraction
    record_budget: Fraction
    confidence: Fraction
    tables: tuple[TableSummary, ...]
    digest: str
    code_lists: dict[str, str]
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain values; exact fractions as text."""
        return {
            "product": self.product,
            "dataset": self.dataset,
            "period": self.period,
            "privacy": {
                "unit": self.unit,
                "max_contributions": self.max_contributions,
                "relation": self.relation,
                "epsilon": str(self.budget),
                "epsilon_per_record": str(self.record_budget),
            },
            "confidence": str(self.confidence),
            "tables": [table.as_json() for table in self.tables],
            "spec_digest": self.digest,
            "code_lists": self.code_lists,
            "advice": list(self.advice),
        }


@dataclass(frozen=True)
class Checked:
    """The answer of `check`: problems, or a summary."""

    problems: tuple[Problem, ...]
    summary: Summary | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for ``--json``."""
        return {
            "ok": self.summary is not None,
            "problems": [problem.as_json() for problem in self.problems],
            "summary": None if self.summary is None else self.summary.as_json(),
        }


def check(path: str | os.PathLike[str], *, source: str | None = None, period: str | None = None) -> Checked:
    """Check a spec and its code lists without opening any data; raises nothing."""
    examined = examine(path, source=source, period=period)
    return Checked(examined.problems, None if examined.loaded is None else summarise(examined.loaded))


def summarise(loaded: Loaded) -> Summary:
    """Say what a loaded spec will publish, and at what price."""
    spec = loaded.spec
    return Summary(
        product=spec.product,
        dataset=spec.dataset,
        period=spec.period,
        unit=spec.privacy.protects,
        max_contributions=spec.privacy.max_contributions,
        relation=spec.privacy.relation,
        budget=spec.privacy.budget,
        record_budget=spec.privacy.record_budget,
        confidence=spec.publication.confidence,
        tables=tuple(_table(loaded, table) for table in spec.tables),
        digest=loaded.digest,
        code_lists=loaded.public_files,
        advice=tuple(_advice(loaded)),
    )


def _table(loaded: Loaded, table: Table) -> TableSummary:
    whole = loaded.spec.privacy.record_budget * table.share
    levels = []
    for level, cells in loaded.level_cells(table).items():
        epsilon = whole * table.levels.get(level, Fraction(1))
        plain = table.mechanism in _PLAIN_NOISE
        confidence = float(loaded.spec.publication.confidence)
        margin = laplace_margin(float(1 / epsilon), confidence) if plain else None
        levels.append(LevelSummary(level, cells, epsilon, float(1 / epsilon) if plain else None, margin))
    sizes = dict(zip(table.dimensions, loaded.leaf_shape(table), strict=True))
    return TableSummary(table.name, sizes, table.mechanism, table.share, tuple(levels))


def _advice(loaded: Loaded) -> list[str]:
    """Return what is allowed, and perhaps not meant."""
    spec, advice = loaded.spec, []
    if spec.privacy.budget > _LARGE_EPSILON:
        advice.append(
            f"a budget of ε = {float(spec.privacy.budget):g} protects nobody in earnest; usual is 1 or less"
        )
    used = {name for table in spec.tables for name in table.dimensions}
    for rule in spec.rules:
        if not isinstance(rule, RowCountRule):
            used |= set(rule.columns) if isinstance(rule, UniqueRule) else {rule.column}
    unused = [name for name in spec.columns if name not in used]
    if unused:
        advice.append(f"no table and no rule uses {listed(unused)}")
    for table in spec.tables:
        names = spec.columns[table.along].levels if table.along is not None else None
        if names and names[-1] not in table.levels:
            advice.append(
                f"table {table.name} is published down to {list(table.levels)[-1]}, not to {names[-1]}"
            )
    return advice


def render(summary: Summary) -> RenderableType:
    """Return the summary as something that `rich` prints."""
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    head = (
        f"{summary.product} {summary.period}: ε = {summary.budget} from account {summary.dataset}, "
        f"for one {summary.unit}, {summary.relation}"
    )
    if summary.record_budget != summary.budget:
        head += f"; ε = {summary.record_budget} per record"
    grid = Grid("table", "level", "mechanism")
    for title in ("cells", "ε per record", "noise scale", f"± ({float(summary.confidence):.4g})"):
        grid.add_column(title, justify="right")
    for table in summary.tables:
        for level in table.levels:
            grid.add_row(
                Text(table.name),
                Text(level.level or "-"),
                Text(table.mechanism),
                f"{level.cells:,}",
                str(level.epsilon),
                "-" if level.scale is None else f"{level.scale:.4g}",
                "-" if level.margin is None else f"{level.margin:,}",
            )
    foot = "± is the margin of a measured cell before post-processing, which makes it smaller on average."
    return Group(Text(head), grid, Text(foot), *(Text(f"Note: {line}") for line in summary.advice))
