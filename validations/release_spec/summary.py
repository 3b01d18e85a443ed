"""Summary of a spec: every problem, or what it will publish, at what price, how accurately.

The expected accuracy holds for the measurements before post-processing, and stated only for mechanisms
whose noise does not depend on the data.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.accounting.conversion import zcdp_epsilon
from tabularium.mechanisms.inference import laplace_margin
from tabularium.validations.derivation import coding_notes, tested_by
from tabularium.validations.domains.domains import total_notes
from tabularium.validations.release_spec.checks.prior_checks import prior_notes
from tabularium.validations.release_spec.checks.source_checks import look_up_notes
from tabularium.validations.release_spec.columns import HierarchyColumn
from tabularium.validations.release_spec.exact_facts import ExactFact, Neighbours, exact_facts, neighbours
from tabularium.validations.release_spec.load import Loaded, examine
from tabularium.validations.release_spec.measures.measure import noise_scale
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import CUT_UNITS, LEFT_OUT, Tally
from tabularium.validations.release_spec.problems import Problem, listed
from tabularium.validations.release_spec.publication_formats import FORMATS
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.universes.impossible_cells import impossible_notes
from tabularium.validations.universes.universe import in_plain_words, tested_columns

_LARGE_DELTA = Fraction(1, 10_000)
_LARGE_EPSILON = 10

_WORDS: dict[Definition, str] = {"pure": "epsilon", "zcdp": "rho"}


@dataclass(frozen=True)
class LevelSummary:
    """One measurement: a table at one level.

    Attributes
    ----------
    level
        Name of the level; "" for a table without a hierarchy.
    loss
        Privacy loss for one record: ε, or ρ.
    scale, margin
        Scale of the noise in records, or in the unit of a measure, and an m (for Laplace noise the smallest)
        such that a measured cell is within ±m of the truth at the spec's level of confidence; None when they
        depend on the data, or nothing that is measured is published as it is.
    group
        The group whose cells these are, where the bounds of a measure differ by groups; else "".
    """

    level: str
    cells: int
    loss: Fraction
    definition: Definition
    scale: float | None
    margin: int | None
    group: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "level": self.level,
            **({"group": self.group} if self.group else {}),
            "cells": self.cells,
            f"{_WORDS[self.definition]}_per_record": str(self.loss),
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
    margin_share: Fraction | None  # the part of it that measures the table's error
    levels: tuple[LevelSummary, ...]
    measure: str | None = None  # what it measures, of what column, where it is no count

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
            **({} if self.measure is None else {"measure": self.measure}),
            "share": str(self.share),
            "margin_share": None if self.margin_share is None else str(self.margin_share),
            "cells": self.cells,
            "levels": [level.as_json() for level in self.levels],
        }


@dataclass(frozen=True)
class HistogramSummary:
    """One histogram of sizes; its error depends on the data."""

    name: str
    of: str
    share: Fraction
    loss: Fraction
    definition: Definition

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        loss = f"{_WORDS[self.definition]}_per_record"
        return {"name": self.name, "of": self.of, "share": str(self.share), loss: str(self.loss)}


@dataclass(frozen=True)
class Summary:
    """What a spec will publish, and at what price."""

    spec: ReleaseSpec
    tables: tuple[TableSummary, ...]
    histograms: tuple[HistogramSummary, ...]
    tallies: tuple[dict[str, Any], ...]  # see ``tally_about``
    invariants: dict[str, int]  # name -> numbers that the tables will show exactly
    digest: str
    code_lists: dict[str, str]
    exact: tuple[ExactFact, ...]  # what a release will say that its budget does not cover
    near: Neighbours
    advice: tuple[str, ...]

    @property
    def epsilon(self) -> float:
        """The ε of one unit: the budget itself, or what ρ gives at δ."""
        privacy = self.spec.privacy
        if privacy.delta is None:
            return float(privacy.budget)
        return zcdp_epsilon(math.nextafter(float(privacy.budget), math.inf), float(privacy.delta))

    @property
    def kept(self) -> str:
        """How many records of a unit are counted, and what that costs, in words; empty where it has one."""
        privacy = self.spec.privacy
        if privacy.unit.column is None:
            return ""
        counted, times = privacy.bounding.partition(";")[0], privacy.budget / privacy.record_budget
        price = f", for which each has 1/{times} of {privacy.symbol}" if times > 1 else ""
        asked = "" if privacy.cut_units else "; privacy.cut_units estimates how many units lose some"
        return (
            f"Counted are {counted}{price}. Others are left out at random, and totals are too small by them, "
            f"which no margin covers{asked}."
        )

    @property
    def price(self) -> str:
        """The budget in words, ``ε = 1`` or ``ρ = 1/8, which is ε = 2.47 at δ = 1/1000000``."""
        privacy = self.spec.privacy
        text = f"{privacy.symbol} = {privacy.budget}"
        if privacy.delta is None:
            return text
        return f"{text}, which is at most ε = {_above(self.epsilon)} at δ = {privacy.delta}"

    def as_json(self) -> dict[str, Any]:
        """Return plain values; exact fractions as text."""
        privacy, loss = self.spec.privacy, _WORDS[self.spec.privacy.definition]
        reported = {} if privacy.delta is None else {"epsilon": self.epsilon, "delta": str(privacy.delta)}
        return {
            "product": self.spec.product,
            "dataset": self.spec.dataset,
            "period": self.spec.period,
            "privacy": {
                "unit": privacy.unit.model_dump(),
                "max_contributions": privacy.max_contributions,
                "relation": privacy.relation,
                "definition": privacy.definition,
                **reported,
                loss: str(privacy.budget),
                f"{loss}_per_record": str(privacy.record_budget),
            },
            "confidence": str(self.spec.publication.confidence),
            "tables": [table.as_json() for table in self.tables],
            "histograms": [histogram.as_json() for histogram in self.histograms],
            "tallies": list(self.tallies),
            "charges": {"tallies": str(self.spec.tally_amount), "main": str(self.spec.main_amount)},
            "invariants": self.invariants,
            "spec_digest": self.digest,
            "code_lists": self.code_lists,
            "outside_the_guarantee": [fact.as_dict() for fact in self.exact],
            "records_kept": self.kept,
            "neighbours": self.near.as_dict(),
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
    spec, privacy = loaded.spec, loaded.spec.privacy
    return Summary(
        spec,
        tables=tuple(_table(loaded, table) for table in spec.arrays),
        histograms=tuple(
            HistogramSummary(h.name, h.of, h.share, privacy.record_budget * h.share, privacy.definition)
            for h in spec.histograms
        ),
        tallies=tuple(tally_about(spec, tally) for tally in spec.tallies),
        invariants={known.name: known.values.size for known in loaded.known},
        digest=loaded.digest,
        code_lists=loaded.public_files,
        exact=tuple(exact_facts(spec)),
        near=neighbours(spec, loaded.domains),
        advice=tuple(_advice(loaded)),
    )


def _table(loaded: Loaded, table: Table) -> TableSummary:
    privacy = loaded.spec.privacy
    budget = loaded.spec.table_budget * table.share
    confidence = float(loaded.spec.publication.confidence)
    levels = []
    for level, cells in loaded.measured_cells(table).items():
        loss = budget * table.levels.get(level, Fraction(1))
        groups = ("",) if table.measured is None else table.measured.groups
        for index, group in enumerate(groups):
            scale, margin = array_noise(table, loss, confidence, privacy.definition, index)
            group_cells = cells // len(groups)
            levels.append(LevelSummary(level, group_cells, loss, privacy.definition, scale, margin, group))
    sizes = dict(zip(table.dimensions, loaded.leaf_shape(table), strict=True))
    measure = None if table.measured is None else _in_words(table)
    return TableSummary(
        table.name,
        sizes,
        table.mechanism_in_words,
        table.share,
        table.margin_share or None,
        tuple(levels),
        measure,
    )


def _in_words(table: Table) -> str:
    """Return what is read off an array, and the column."""
    assert table.measured is not None  # noqa: S101 - the caller has looked
    return f"{' and '.join(measure.in_words for measure in table.measures.values())} of {table.measured.of}"


def tally_about(spec: ReleaseSpec, tally: Tally) -> dict[str, Any]:
    """Return what a spec settles of a tally: what it counts, what a unit pays, how far it may be off."""
    loss = spec.privacy.budget * tally.share
    pure = spec.privacy.definition == "pure"
    # A unit that adds up to m has noise as if it added 1 and cost 1/m, or 1/m² of a ρ.
    plain, loss_of_one = ("identity", loss / tally.most) if pure else ("gaussian", loss / tally.most**2)
    scale, margin = noise_of(plain, loss_of_one, float(spec.publication.confidence))
    counts = {CUT_UNITS: "units", LEFT_OUT: "records"}.get(tally.of, spec.privacy.counted_things)
    return {"of": tally.of, "counts": counts, "loss": str(loss), "scale": scale, "margin": margin}


def _above(epsilon: float) -> str:
    """Return three digits, rounded up: the number follows "at most"."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2) if epsilon > 0 else 1.0
    return f"{math.ceil(epsilon / step) * step:.4g}"


def _advice(loaded: Loaded) -> list[str]:
    """Return notes on what is allowed but may not be intended."""
    spec, advice = loaded.spec, []
    privacy = spec.privacy
    epsilon = float(privacy.budget)
    if privacy.delta is not None:
        epsilon = zcdp_epsilon(epsilon, float(privacy.delta))
    if epsilon >= _LARGE_EPSILON:
        advice.append(
            f"a budget of {privacy.symbol} = {float(privacy.budget):g} gives hardly any protection; usual is "
            + ("1 or less" if privacy.definition == "pure" else "1/8 or less")
        )
    if privacy.delta is not None and privacy.delta > _LARGE_DELTA:
        advice.append(f"δ = {privacy.delta} is large; usual is less than one over the number of records")
    used = {name for table in spec.tables for name in table.dimensions}
    used |= set(spec.identifiers)
    used |= {name for table in spec.tables for measure in table.measures.values() for name in measure.columns}
    used |= {name for rule in spec.rules for name in rule.about}
    used |= {name for fact in spec.impossible for name in fact.cells}
    used |= tested_columns(spec, loaded.domains)
    used |= {name for column in spec.columns.values() for name in tested_by(column, loaded.domains)}
    advice += [*look_up_notes(spec), *prior_notes(spec)]
    for name in spec.publication.formats:
        advice += FORMATS[name].advice(spec, loaded.domains)
    advice += total_notes(loaded.domains)
    unused = [name for name in spec.columns if name not in used]
    if unused:
        advice.append(f"no table and no rule uses {listed(unused)}")
    advice += in_plain_words(spec, loaded.domains)
    advice += impossible_notes(spec, loaded.domains)
    advice += coding_notes(spec.columns, loaded.domains, [table.dimensions for table in spec.tables])
    advice += [
        f"table {table.name} spends {float(100 * table.margin_share):g} % of its budget to measure its error"
        for table in spec.tables
        if table.margin_share
    ]
    for table in spec.tables:
        column = spec.columns[table.along] if table.along is not None else None
        if isinstance(column, HierarchyColumn) and (deepest := column.levels[-1]) not in table.levels:
            advice.append(
                f"table {table.name} is published down to {list(table.levels)[-1]}, not to {deepest}"
            )
    return advice


# How large the noise of a measurement will be, as far as that is settled before anything is measured.


_LAPLACE = ("identity", "cells")  # one discrete Laplace draw per cell
_GAUSSIAN = ("gaussian",)  # one discrete Gaussian draw per cell


def array_noise(
    table: Table, loss: Fraction, confidence: float, definition: Definition, group: int = 0
) -> tuple[float | None, int | None]:
    """Return scale and margin of a level; of a sum or mean in the unit of its column, and rounded up.

    ``group``: the group, where bounds differ by groups.
    """
    measure = table.measured
    if measure is None:
        return noise_of(table.mechanism, loss, confidence)
    plain = "identity" if definition == "pure" else "gaussian"
    part, folds = measure.noise_terms(loss, definition)
    scale, margin = noise_of(plain, part, confidence, largest=measure.sensitivities[group] * folds)
    in_unit = None if margin is None else math.ceil(margin * measure.noise_unit)
    # No number of any other array is published.
    return (scale or 0) * float(measure.noise_unit), in_unit if measure.linear else None


def noise_of(
    mechanism: str, loss: Fraction, confidence: float, *, largest: float = 1
) -> tuple[float | None, int | None]:
    """Return the scale of noise that costs ``loss``, and a half-width that holds it with this confidence.

    ``largest``: the most by which one record changes what is measured.
    """
    if mechanism in _LAPLACE:
        scale = noise_scale("pure", loss, largest)
        return scale, laplace_margin(scale, confidence)
    if mechanism in _GAUSSIAN:
        scale = noise_scale("zcdp", loss, largest)
        return scale, math.ceil(NormalDist().inv_cdf(0.5 + confidence / 2) * scale)
    return None, None
