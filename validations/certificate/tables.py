"""Tables in a certificate: size, total, and how the margins of error are known."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from tabularium.validations.certificate.value_kinds import (
    Amount,
    Flag,
    NotNegative,
    Number,
    OwnId,
    Portion,
    Real,
    Section,
    Several,
    Sha256,
    Sometimes,
    WholeNumber,
    Words,
)
from tabularium.validations.release_spec.measures.kinds import KEYS

Method = Literal["exact", "simulated", "inverted", "beside", "prior", "above", "risk", "measured", "unknown"]
"""How margins are known; a histogram has none."""


class FailedCheck(Section):
    """Cells that fail a check."""

    check: Words = Field(description="What is wrong with them.")
    count: Several
    cells: tuple[dict[str, str], ...] = Field(
        description="The first of them, by the codes of their dimensions."
    )


class ShownCells(Section):
    """Which cells of a mean or rate are shown, and what holds for them."""

    level: Sometimes[str] = Field(default=None, description="Of the hierarchy.")
    cells: Number = Field(description="How many could have been shown.")
    shown: Number = Field(description="How many are.")
    least_standard_deviations: Real | None = Field(
        description="How many standard deviations above zero the least noisy number shown is; null if none "
        "is noisy."
    )
    without_records_at_most: Portion = Field(description="Part of these that is expected to have no record.")
    margins_at: Portion = Field(
        description="The level of their margins, for which the stated part of all that is shown is held."
    )


class SimulatedReleases(Section):
    """How many releases were simulated."""

    for_margins: Number
    for_checking: Number


class Sampled(Section):
    """For large tables, each simulated release had a sample of the families of the hierarchy."""

    part_of_cells: Annotated[float, Field(strict=True, gt=0, le=1)] = Field(
        description="The part of all cells, on average."
    )
    standard_error: NotNegative = Field(
        description="Of the share of errors that a margin holds, at its largest."
    )


class Checked(Section):
    """Over all cells of the checking releases."""

    held: Real
    mean_margin: Real
    root_mean_squared_error: Real


class Errors(Section):
    """Errors of simulated releases, in cells of like published size."""

    level: Sometimes[Words] = Field(default=None, description="Of the hierarchy.")
    counts: tuple[Real | None, ...] = Field(description="From and to which published count.")
    cells: NotNegative = Field(description="Their mean number in a release.")
    median: NotNegative = Field(description="Of errors without sign.")
    ninety_percent: NotNegative
    largest: NotNegative
    mean_margin: NotNegative
    held: Portion = Field(description="The share of errors within their margin.")
    held_of_true_counts_of_this_size: Portion | None = Field(
        description="The same over cells of this true count, or null."
    )


class Margins(Section):
    """How its margins are known."""

    method: Method | Literal["none"] = Field(description="How they are known, or `none`.")
    mean_squared_error: Sometimes[dict[str, NotNegative]] = Field(
        default=None, description="Of a measured cell, by level."
    )
    share_of_budget: Sometimes[Amount] = Field(
        default=None, description="Part of the table's budget that measured its error."
    )
    from_noisy_cells: Sometimes[tuple[Words, ...] | Flag] = Field(
        default=None, description="Levels whose margins come only from noisy cells."
    )
    shown: Sometimes[tuple[ShownCells, ...]] = Field(
        default=None,
        description="Of means and rates: which cells are shown.",
    )
    variances: Sometimes[Literal["estimated"]] = Field(
        default=None, description="The variances are estimates."
    )
    simulated_releases: Sometimes[SimulatedReleases] = None
    sampled: Sometimes[Sampled] = None
    checked: Sometimes[Checked] = None
    errors: Sometimes[tuple[Errors, ...]] = Field(
        default=None, description="Errors by level and size of the published count."
    )


class Group(Section):
    """The bounds of a group."""

    group: Words = Field(description="The value of the dimension.")
    from_: Words = Field(
        validation_alias="from", serialization_alias="from", description="The smallest value."
    )
    to: Words = Field(description="The largest value.")
    largest_change_by_one_record: Words = Field(description="In steps, of the numbers of this group.")


class Measure(Section):
    """A measure of a table."""

    kind: Annotated[Words, WithJsonSchema({"enum": list(KEYS), "type": "string"})] = Field(
        description="What is published of the column."
    )
    of: Words = Field(description="The column, or the test of a rate.")
    per: Sometimes[Words] = Field(default=None, description="Of a rate: of how many.")
    over: Words | None = Field(
        default=None,
        description="Of a rate: the table, invariant or figures that it is over; null for its own records.",
    )
    at: Sometimes[Words] = Field(
        default=None, description="Of a median or quantile: the part of all values up to it."
    )
    method: Sometimes[Literal["tree", "choice"]] = Field(
        default=None, description="Of a median or quantile: how it is measured."
    )
    additive: Sometimes[Literal["no"]] = Field(
        default=None, description="`no` where numbers of cells, levels or tables must not be added up."
    )
    from_: Words = Field(
        validation_alias="from",
        serialization_alias="from",
        description="The smallest value; smaller ones count as this.",
    )
    to: Words = Field(description="The largest value; larger ones count as this.")
    by: Sometimes[Words] = Field(default=None, description="The dimension by whose values the bounds differ.")
    groups: Sometimes[tuple[Group, ...]] = Field(
        default=None, description="The bounds of each group; above, the widest."
    )
    step: Words = Field(description="Values are rounded to whole steps.")
    weight: Words | None = Field(description="The column that values are multiplied by.")
    largest_weight: Words = Field(description="Larger weights count as this.")
    largest_change_by_one_record: Words = Field(
        description="Over all numbers of its array; in L1, and hence in L2."
    )
    total: Real | None = Field(description="The number over all records, or null.")
    noise_variance: Sometimes[dict[str, NotNegative]] = Field(
        default=None,
        description="Noise variance of a measured number, by level; the mean over groups.",
    )
    margins: Margins
    failed_checks: tuple[FailedCheck, ...] = Field(description="Numbers that fail a check, check by check.")


class ShownChange(Section):
    """What becomes of a change."""

    change: Several
    shown: Real


class Prior(Section):
    """The earlier release towards whose counts these were drawn, and what became of changes."""

    release: OwnId = Field(description="Its id.")
    certificate: Sha256 = Field(description="Of the earlier release.")
    file: Words = Field(description="The file of the table in that release.")
    sha256: Sha256 = Field(description="Of that file.")
    cells: Number = Field(
        description="Measured cells that were drawn towards it; for others zero was a better guess."
    )
    scale: NotNegative = Field(description="By which the earlier counts were multiplied first.")
    changes: tuple[ShownChange, ...] = Field(
        description="Of a true change of this size, which part is shown on average."
    )


class ShownDifference(Section):
    """What becomes of a difference."""

    difference: Several
    shown: Real


class Above(Section):
    """What of the level above the counts were drawn towards, and what became of differences from it."""

    level: Words = Field(description="The measured level above the finest.")
    cells: Number = Field(
        description="Measured cells that were drawn towards it; for others zero was a better guess."
    )
    differences: tuple[ShownDifference, ...] = Field(
        description="Of a true difference from what was expected, the part that is shown on average."
    )


class Table(Section):
    """A table or a histogram."""

    rows: Number = Field(description="Rows of its files.")
    total: WholeNumber = Field(description="The published total.")
    counted: Words = Field(description="What a total counts.")
    mechanism: Words = Field(description="The mechanism.")
    impossible: Sometimes[Several] = Field(
        default=None, description="Number of impossible cells, 0 with margin 0."
    )
    noise_variance: Sometimes[dict[str, NotNegative]] = Field(
        default=None, description="Noise variance of a measured cell, by level."
    )
    sizes_of: Sometimes[Words] = Field(default=None, description="Of a histogram: its column.")
    largest_size: Several | None = Field(
        default=None, description="Of a histogram: the largest possible size."
    )
    margins: Margins
    prior: Sometimes[Prior] = None
    above: Sometimes[Above] = None
    failed_checks: Sometimes[tuple[FailedCheck, ...]] = Field(
        default=None, description="Cells that fail a check, check by check."
    )
    measures: Sometimes[dict[str, Measure]] = Field(
        default=None, description="Numbers other than counts, by name."
    )
