"""A spec as a problem of planning: every level that may be measured, and what each cell gains from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from mechanisms.errors import InputError
from mechanisms.inference.arrays import Bools, Floats
from mechanisms.planning.linear_variances import LinearVariances, PlannedTable
from mechanisms.planning.noise_curves import NoiseCurve
from tasks.postprocess.agreement import Agreement
from validations.domains.domains import HierarchyDomain
from validations.spec.checks.mechanism_checks import default_mechanism
from validations.spec.load import Loaded
from validations.spec.model import ReleaseSpec
from validations.spec.parts.table_parts import Table

Losses = dict[tuple[str, str], float]
"""(table, level) -> the loss of one record."""

_ADDITIVE = ("identity", "cells", "gaussian")  # independent noise of one known variance on every cell


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """The tables of a spec with all levels that might be measured.

    Attributes
    ----------
    loaded
        The spec, with these levels.
    agreement
        How its tables hang together.
    linear
        Variances after consistency.
    curves
        (measurements) of the noise. A sum of values would have the curve of its own sensitivity here.
    needed
        (measurements,) which cannot be left out.
    """

    loaded: Loaded
    agreement: Agreement
    linear: LinearVariances
    curves: tuple[NoiseCurve, ...]
    needed: Bools

    @classmethod
    def of(cls, loaded: Loaded) -> PlannedModel:
        """Lay a spec out.

        Raises
        ------
        InputError
            A table has a mechanism whose error depends on the data, or measures; or tables count different
            records, or nested codings of a column.
        """
        for table in loaded.spec.tables:
            _refuse_mechanism(loaded, table)
        together = loaded.spec.postprocessing.consistency
        wide = replace(loaded, spec=_with_all_levels(loaded)) if together else loaded
        agreement = Agreement.of(wide)
        _refuse_parts(loaded, agreement)
        tables = [
            PlannedTable(
                name,
                frame.flat,
                frame.along,
                frame.tree,
                agreement.layouts[name].cuts if name in agreement.layouts else {},
            )
            for name, frame in agreement.overlap.frames.items()
        ]
        linear = LinearVariances(tables, agree=together)
        deepest = dict(linear.measurements)  # levels stand root first
        needed = [not together or deepest[name] == level for name, level in linear.measurements]
        curve = NoiseCurve(loaded.spec.privacy.definition)
        return cls(wide, agreement, linear, (curve,) * len(needed), np.array(needed))

    def shown(self, table: str) -> dict[str, int]:
        """Return the published levels of a table with their depths; ``""`` without a hierarchy."""
        layout = self.agreement.layouts[table]
        return {
            level: 0 if layout.along is None else layout.along.levels.index(level) for level in layout.cuts
        }

    def losses(self, found: Floats) -> Losses:
        """Return losses by table and level."""
        return dict(zip(self.linear.measurements, found.tolist(), strict=True))

    def variances(self, found: Floats) -> dict[str, Floats]:
        """Return the variances (nodes, 1) of every table that losses (measurements,) give."""
        precisions = np.array(
            [curve.precision(np.array([loss]))[0] for curve, loss in zip(self.curves, found, strict=True)]
        )
        spread = self.linear.variances(precisions)
        trees = self.linear.tables
        return {
            name: each.values[self.linear.classes[trees[name].along].of[: trees[name].tree.nodes]][:, None]
            for name, each in spread.items()
        }


def with_shares(
    loaded: Loaded,
    budget: Fraction,
    tables: Mapping[str, Fraction],
    levels: Mapping[str, dict[str, Fraction]],
) -> Loaded:
    """Return a spec with another budget, other shares and other measured levels."""
    spec = loaded.spec
    changed = tuple(
        table.model_copy(update={"share": tables[table.name], "levels": levels[table.name]})
        for table in spec.tables
    )
    privacy = spec.privacy.model_copy(update={"budget": budget})
    return replace(loaded, spec=spec.model_copy(update={"privacy": privacy, "tables": changed}))


def _with_all_levels(loaded: Loaded) -> ReleaseSpec:
    tables = []
    for table in loaded.spec.tables:
        domain = loaded.domains[table.along] if table.along is not None else None
        if isinstance(domain, HierarchyDomain):
            last = max(domain.levels.index(level) for level in table.levels)
            names = domain.levels[: last + 1]
            levels = dict.fromkeys(names, Fraction(1, len(names)))
            tables.append(table.model_copy(update={"levels": levels}))
        else:
            tables.append(table)
    return loaded.spec.model_copy(update={"tables": tuple(tables)})


def _refuse_parts(loaded: Loaded, agreement: Agreement) -> None:
    """Refuse what variances after consistency are not worked out for: they would be those of other tables."""
    for table in loaded.spec.tables:
        if table.measures:
            raise InputError(
                "has measures, and their budget is not planned",
                where=f"table {table.name}",
                mend="plan the counts without `measures`, and give the measures shares by hand",
            )
    if len(agreement.groups) > 1:
        other = next(iter(agreement.groups[1].layouts))
        raise InputError(
            "counts other records than the tables before it: universes are planned one at a time",
            where=f"table {other}",
            mend="plan a spec for each universe, with its part of the budget",
        )
    if agreement.groups[0].chains:
        names = " and ".join(agreement.groups[0].chains[0].names)
        raise InputError(
            f"tables have nested codings of one column, {names}, and budgets are not planned for those",
            where="tables",
            mend="plan with the same coding in every table",
        )


def _refuse_mechanism(loaded: Loaded, table: Table) -> None:
    plain = default_mechanism(loaded.spec.privacy.definition)
    if table.mechanism not in _ADDITIVE or table.parameters:
        raise InputError(
            f"the error of {table.mechanism} depends on the data, so that no budget can be planned for it",
            where=f"table {table.name}",
            mend=f"plan with {plain}; --like RELEASE --mechanisms says what others would gain",
        )
