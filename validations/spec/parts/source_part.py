"""Where the microdata are."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from validations.spec.kinds import DatabaseTable, Part, format_of
from validations.spec.values import RawText, RejectLimit, Text

Format = Literal["csv", "parquet"]


class Source(Part):
    """Where the microdata are: ``path`` for files, or ``url`` and ``table`` for a database."""

    path: Text | None = Field(
        default=None,
        description="A file, a glob, or a folder of partitioned files; relative to the spec file. "
        "`{period}` in it stands for the period.",
    )
    url: Text | None = Field(default=None, description="A database URL without a password in it.")
    table: DatabaseTable | None = Field(default=None, description="The table behind `url`.")
    format: Format | None = Field(
        default=None, description="How the files are written; inferred from their ending when absent."
    )
    delimiter: RawText = Field(default=",", description="The character between the values of a CSV row.")
    nulls: tuple[RawText, ...] = Field(default=("",), description="The texts that mean null in a CSV file.")
    engine: Literal["duckdb", "database"] = Field(
        default="duckdb",
        description="What reads it: `duckdb` for files, `database` for a URL (the default there).",
    )
    max_rejected: RejectLimit = Field(
        default=0,
        description="How many records may be rejected before the run stops: a count, or a percentage.",
    )

    @model_validator(mode="before")
    @classmethod
    def _engine_of_url(cls, data: Any) -> Any:
        if isinstance(data, dict) and "url" in data and "path" not in data and "engine" not in data:
            return {**data, "engine": "database"}
        return data

    @property
    def file_format(self) -> Format | None:
        """The format of the files: as written, or inferred from the ending; None where neither says it."""
        return self.format or (format_of(self.path) if self.path else None)
