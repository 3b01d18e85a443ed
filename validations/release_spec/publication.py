"""Output in a spec: post-processing, publication, and the secure folder of a run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tabularium.validations.release_spec.kinds import LevelName, Part, object_schema
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.scalars import (
    Confidence,
    PartLimit,
    Positive,
    QualityLimit,
    Switch,
    Text,
    matching,
    refuse,
)

WebAddress = Annotated[
    Text, *matching(r"https?://[^\s<>\"{}|\\^`]+", "write an address, for instance https://example.org/data")
]
Email = Annotated[
    Text, *matching(r"[^\s@<>\"]+@[^\s@<>\"]+", "write an address, for instance data@example.org")
]
Language = Annotated[
    Text, *matching("[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "write a language tag, for instance en or pt-BR")
]


class PostProcessing(Part):
    """What is done with the measurements; it costs no budget."""

    consistency: Switch = Field(
        default=True,
        description="Levels add up, and tables agree on what they share, by weighted least squares.",
    )
    nonnegativity: Switch = Field(
        default=True, description="No cell is below zero, and the levels still add up."
    )
    rounding: Switch = Field(default=True, description="Every cell is a whole number, and both still hold.")


class Measurements(Part):
    """Whether the noisy measurements are published beside the tables, or withheld with a reason."""

    withhold: Text | None = Field(default=None, description="The reason, which is published instead.")


def _measurements(value: object) -> object:
    if value == "publish":
        return Measurements()
    if isinstance(value, Measurements) or (isinstance(value, dict) and value):
        return value
    raise refuse("is neither `publish` nor a reason", 'write publish, or {withhold: "the reason"}')


MeasurementsChoice = Annotated[
    Measurements,
    BeforeValidator(_measurements),
    PlainSerializer(
        lambda m: "publish" if m.withhold is None else {"withhold": m.withhold}, when_used="json"
    ),
    WithJsonSchema(
        {"anyOf": [{"const": "publish"}, object_schema(withhold={"type": "string", "minLength": 1})]}
    ),
]


CRITERIA = ("error-in-processing", "implausible", "margins-too-wide")
Criterion = Annotated[
    Text, *matching("[a-z][a-z0-9-]{0,62}", "use small letters, digits and hyphens, at most 63")
]


class Review(Part):
    """Who decides on a draft before it is published, by which criteria, and where the draft lies."""

    by: Literal["officer"] = Field(
        default="officer", description="Who decides: a disclosure officer with an enrolled key."
    )
    criteria: tuple[Criterion, ...] = Field(
        default=CRITERIA,
        description="Why a draft may be withheld: names of small letters, digits and hyphens, which are "
        "published.",
    )
    group: Text | None = Field(
        default=None, description="The group of the system that may read drafts; default: only their owner."
    )
    folder: Text = Field(
        default="drafts",
        description="Where drafts are, relative to the spec file.",
    )


def _review(value: object) -> object:
    if value == "officer":
        return Review()
    if isinstance(value, Review) or (isinstance(value, dict) and value):
        return value
    raise refuse("is not `officer`", "write officer, or {by: officer, criteria: [implausible]}")


ReviewChoice = Annotated[
    Review,
    BeforeValidator(_review),
    # where a draft lies, and who may read it, is no part of what is published
    PlainSerializer(lambda r: {"by": r.by, "criteria": list(r.criteria)}, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "officer"},
                {
                    "type": "object",
                    "properties": {
                        "by": {"const": "officer"},
                        "criteria": {
                            "type": "array",
                            "items": {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,62}$"},
                            "minItems": 1,
                        },
                        "group": {"type": "string", "minLength": 1},
                        "folder": {"type": "string", "minLength": 1},
                    },
                    "minProperties": 1,
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class Curator(Part):
    """Who answers for the product."""

    name: Text = Field(description="The name of the agency or the office.")
    url: WebAddress | None = Field(default=None, description="Its page.")
    email: Email | None = Field(default=None, description="Where questions go.")


class Region(Part):
    """The territory that the product is about."""

    code: LevelName = Field(description="Its code, for instance of ISO 3166.")
    label: Text | None = Field(default=None, description="Its name.")


class About(Part):
    """Descriptions of the product for people and catalogues; all of it is published."""

    title: Text | None = Field(default=None, description="The title; default: the name of the product.")
    description: Text | None = Field(
        default=None, description="A few sentences on one line (fold them with `>-`)."
    )
    curator: Curator | None = Field(
        default=None, description="Who answers for it: `name`, `url` and `email`."
    )
    region: Region | None = Field(
        default=None,
        description="The territory: a `code`, for instance of ISO 3166, and a `label`.",
    )
    licence: WebAddress | None = Field(default=None, description="The address of the licence.")
    language: Language = Field(
        default="en",
        description="The language of titles and labels, also of names in SDMX code lists.",
    )
    keywords: tuple[Text, ...] = Field(default=(), description="Words for catalogues.")
    url: WebAddress | None = Field(default=None, description="The page of the product.")


class SdmxOptions(Part):
    """How the structure of the tables is named in SDMX."""

    agency: Annotated[
        Text, *matching(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*", "write an id, for instance TAB")
    ] = Field(default="TAB", description="The id of the agency that maintains the structure.")
    version: Annotated[
        Text, *matching(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}", 'write three numbers, such as "1.0.0"')
    ] = Field(default="1.0.0", description="The version of the structure: three numbers.")
    structure: Literal["xml", "json"] = Field(
        default="xml",
        description="`xml` (SDMX-ML 3.0) or `json` (SDMX-JSON 2.0).",
    )


@dataclass(frozen=True)
class Limits:
    """Margins above which a number is flagged, and above which it is left blank."""

    unreliable: int | Fraction | None = None
    suppress: int | Fraction | None = None


class MeasureLimits(Part):
    """From which margins on measures of one kind are flagged or left blank."""

    unreliable: PartLimit | None = Field(default=None, description="A number with a larger one is flagged.")
    suppress: PartLimit | None = Field(default=None, description="A number with a larger one is left blank.")

    @property
    def limits(self) -> Limits:
        """Both."""
        return Limits(self.unreliable, self.suppress)


class MeanLimits(MeasureLimits):
    """The same of means, medians and other quantiles."""

    part_of: Literal["range", "value"] = Field(
        default="range",
        description="In `means`: whether limits are parts of the `range` from `from` to `to` or of the "
        "published `value`.",
    )


OF_MEASURES = Fraction(1, 10)
"""Part of what a rate or mean may be above which its margin is flagged, where the spec says nothing else."""
OF_SUMS = Fraction(3, 10)
"""The same of a sum."""


class Quality(Part):
    """Which cells are flagged or left blank, by what is published: counts and margins."""

    unreliable: QualityLimit | None = Field(
        default=None,
        description="A count with a larger margin is flagged `unreliable`: a percentage of the count, or a "
        "whole number.",
    )
    suppress: QualityLimit | None = Field(
        default=None,
        description="A count with a larger margin is `suppressed`, with its measures.",
    )
    at_least: Positive | None = Field(
        default=None, description="A smaller count is `suppressed`, with its measures."
    )
    sums: MeasureLimits | None = Field(
        default=None,
        description="`unreliable` and `suppress` of sums, as percentages; default: those of counts if these "
        'are percentages, else `{unreliable: "30%"}`.',
    )
    rates: MeasureLimits | None = Field(
        default=None,
        description='The same of rates, in points of a hundred: `"5%"` is 50 of a rate per 1000; default: '
        '`{unreliable: "10%"}`.',
    )
    means: MeanLimits | None = Field(
        default=None,
        description='The same of means and quantiles; default: `{unreliable: "10%"}`.',
    )

    def limits_of(self, measure: Measure) -> tuple[Literal["value", "range"], Limits]:
        """Return what the limits of a measure are parts of, and the limits."""
        if measure.quality_rules == "sums":
            if self.sums is not None:
                return "value", self.sums.limits
            parts = [
                limit if isinstance(limit, Fraction) else None for limit in (self.unreliable, self.suppress)
            ]
            return "value", Limits(*parts) if any(parts) else Limits(OF_SUMS)
        if measure.quality_rules == "rates":
            return "range", Limits(OF_MEASURES) if self.rates is None else self.rates.limits
        if self.means is not None:
            return self.means.part_of, self.means.limits
        return "range", Limits(OF_MEASURES)


class Publication(Part):
    """What is published, and where."""

    folder: Text = Field(
        default="releases", description="Where releases are written; relative to the spec file."
    )
    formats: tuple[Text, ...] = Field(
        default=("csv", "parquet"),
        description="How tables are written; at least `csv` or `parquet`.",
    )
    sdmx: SdmxOptions = Field(default_factory=SdmxOptions, description="Names of the structure in SDMX.")
    quality: Quality | None = Field(
        default=None,
        description="Which numbers are flagged or left blank; default: none.",
    )
    confidence: Confidence = Field(default=Fraction(9, 10), description="The level of margins of error.")
    measurements: MeasurementsChoice = Field(
        default=Measurements(),
        description="`publish` the noisy measurements from before post-processing, or `withhold` them: "
        '`{withhold: "the reason"}`, which is published instead.',
    )
    review: ReviewChoice | None = Field(
        default=None,
        description="`officer`, or a mapping: the release is a draft until an officer accepts it.",
    )


class WorkspaceOptions(Part):
    """The secure folder of a run."""

    keep: Switch = Field(
        default=False,
        description="Keep the workspace, which holds microdata, after the run.",
    )
