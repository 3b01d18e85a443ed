"""What a release spec says of its output: post-processing, publication, and the secure folder of a run."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from validations.spec.kinds import Part, object_schema
from validations.spec.values import Confidence, Switch, Text, refuse

Format = Literal["csv", "parquet"]


class PostProcessing(Part):
    """What is done with the measurements; it costs no budget."""

    consistency: Switch = Field(default=True, description="Make the levels add up (weighted least squares).")
    nonnegativity: Switch = Field(default=True, description="Make every cell zero or more.")
    rounding: Switch = Field(default=True, description="Make every cell a whole number.")


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


class Publication(Part):
    """What is published, and where."""

    folder: Text = Field(
        default="releases", description="Where releases are written; relative to the spec file."
    )
    formats: tuple[Format, ...] = Field(default=("csv", "parquet"), description="How the tables are written.")
    confidence: Confidence = Field(default=Fraction(9, 10), description="The level of the margins of error.")
    measurements: MeasurementsChoice = Field(
        default=Measurements(),
        description="`publish` the noisy measurements beside the tables, or `{withhold: reason}`.",
    )


class WorkspaceOptions(Part):
    """The secure folder of a run."""

    keep: Switch = Field(
        default=False, description="Keep the secure workspace after the run, for an inquiry."
    )
