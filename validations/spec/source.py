"""Where the microdata are, what is looked up beside them, and addresses in object stores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tabularium.validations.domains.encoding import Separators
from tabularium.validations.spec.kinds import DatabaseTable, Part, format_of
from tabularium.validations.spec.scalars import (
    ColumnName,
    Positive,
    RawText,
    Reason,
    RejectLimit,
    Text,
    matching,
)

Format = Literal["csv", "parquet"]


class Limits(Part):
    """How much is read before a source is refused, so that nothing odd occupies the machine."""

    columns: Positive = Field(default=4_096, description="The most columns of a CSV file.")
    files: Positive = Field(default=100_000, description="The most files.")
    unpacked: Positive = Field(
        default=100,
        description="How many times its size a compressed CSV file may become (up to 1 GiB any may), and how "
        "many rows a Parquet file may have for each of its bytes (up to 100 million any may).",
    )


class Files(Part):
    """Files of one table, and how they are written."""

    path: Text | None = Field(
        default=None,
        description="A file, a glob, or a folder of partitioned files; relative to the spec file, or an "
        "address in an object store (`s3://bucket/people.parquet`). "
        "`{period}` in it stands for the period.",
    )
    format: Format | None = Field(
        default=None, description="How the files are written; inferred from their ending when absent."
    )
    delimiter: RawText = Field(default=",", description="The character between the values of a CSV row.")
    quote: Literal['"', "none"] = Field(
        default='"',
        description="What may stand around a value of a CSV row; `none` says that no quote is in the files, "
        "which are then read in parallel.",
    )
    nulls: tuple[RawText, ...] = Field(default=("",), description="The texts that mean null in a CSV file.")
    thousands: RawText | None = Field(
        default=None,
        description="The character between groups of three digits, where numbers stand in text as `1.234,5`.",
    )
    decimal: Literal[".", ","] | None = Field(
        default=None, description="The character before the decimals of numbers in text; a point when absent."
    )
    ignore: tuple[Text, ...] = Field(
        default=(), description="Patterns of names or paths below `path` that are left out, as `*.md`."
    )
    limits: Limits = Field(default=Limits(), description="How much is read at most.")

    @property
    def file_format(self) -> Format | None:
        """The format of the files: as written, or inferred from the ending; None where neither says it."""
        return self.format or (format_of(self.path) if self.path else None)

    @property
    def separators(self) -> Separators:
        """How numbers are written in its text."""
        return Separators(self.thousands, self.decimal or ".")


class Source(Files):
    """Where the microdata are: ``path`` for files, or ``url`` and ``table`` for a database."""

    url: Text | None = Field(default=None, description="A database URL without a password in it.")
    table: DatabaseTable | None = Field(default=None, description="The table behind `url`.")
    engine: Literal["duckdb", "database", "postgresql", "spark"] = Field(
        default="duckdb",
        description="What reads and counts it: `duckdb` files; `database` a URL, by a copy of the needed "
        "columns (the default there); `postgresql` the table of a URL where it lies; `spark` Parquet files, "
        "on a cluster.",
    )
    master: Text | None = Field(
        default=None,
        description="The cluster of `spark`: `spark://host:7077`, or `local[4]` for this machine.",
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


class LookUp(Files):
    """A table in which more is found about a record of the source: one of public facts, or of its unit."""

    public: Reason | None = Field(
        default=None,
        description="Why all that stands there is public and would be the same for any other people; "
        "published. Nothing in it is protected.",
    )
    unit: ColumnName | None = Field(
        default=None,
        description="The column that says whose a row is: a record finds rows of its own privacy unit only.",
    )
    key: ColumnName | None = Field(
        default=None, description="The column in which a record's value is looked up; with `unit`, beside it."
    )
    source_column: ColumnName | None = Field(
        default=None,
        alias="from",
        description="The column of the source that holds that value, or of a look-up above, as "
        "`homes.place`; called as the key when absent.",
    )

    @property
    def looked_up(self) -> str | None:
        """The column whose value is looked up under the key; None where there is no key."""
        return self.source_column or self.key


LookUpName = Annotated[
    Text,
    *matching("[a-z][a-z0-9_]{0,62}", "use small letters, digits and underscores, and a letter first"),
]


def taken_from(name: str, lookups: Mapping[str, Any]) -> tuple[str, str]:
    """Return the look-up that ``LOOKUP.COLUMN`` names, and its column; of the source itself ``""``."""
    place, _, column = name.partition(".")
    return (place, column) if column and place in lookups else ("", name)


def located(path: str, period: str, folder: Path) -> str:
    """Return the absolute path, glob or folder that is meant beside a spec, or an address, for one period."""
    if "://" in path:
        return path.replace("{period}", period)
    # The name of a period has no slash and begins with a letter or digit: the path stays in its folder.
    return os.path.abspath(folder / path.replace("{period}", period))  # noqa: PTH100 - a glob is not a path


def public_name(name: str) -> str:
    """Return what the digest of a public look-up goes by, beside those of code lists."""
    return f"lookups.{name}"


# After ://: a bucket, a server with a port, an access point; or a container or bucket at whose it is.
_PLAIN = re.compile(r"[^@:/]*(/.*)?|[^@:/]*:\d{1,5}(/[^@]*)?|arn:[^@]*", re.DOTALL)
_OWNER = re.compile(r"[^@:/]*@[^@:/]*(/.*)?", re.DOTALL)
_SECRET = re.compile(
    "(?:[?&;#]|%3[fb]|%26|%23)[^=/&]*(sig|signature|credential|secret|token|key|password|pwd)(?:=|%3d)",
    re.IGNORECASE,
)
_OWNED = ("abfs", "abfss", "az", "oci")
_LOCAL = ("asynclocal",)  # of a package of its own, and of this machine's files
#: By these a pattern is told from a name.
WILD = "*?["


def is_in_store(address: str) -> bool:
    """Whether it is in an object store that fsspec knows.

    What comes with fsspec itself is none: files of this machine, archives, copies that it keeps, and servers
    that need not prove who they are.
    """
    local = address.partition("://")[0] in _LOCAL
    return not local and not _class_of(address).startswith("fsspec.")


def package_of(address: str) -> str:
    """Return the package that reads from the store."""
    return _class_of(address).partition(".")[0]


def _class_of(address: str) -> str:
    from fsspec.registry import known_implementations

    known = known_implementations.get(address.partition("://")[0], {})
    return str(known.get("class", "fsspec."))


def secret_problem(address: str) -> tuple[str, str] | None:
    """Return what is said of an address with credentials in it, without quoting it; None of any other."""
    scheme, _, rest = address.partition("://")
    owned = scheme in _OWNED and _OWNER.fullmatch(rest)
    if (owned or _PLAIN.fullmatch(rest)) and not _SECRET.search(rest):
        return None
    what = "there is a password or a key in the address, and specs are read by many"
    return what, "remove it; the environment or the store's own settings hold it"


def store_problem(address: str) -> tuple[str, str] | None:
    """Return what is wrong with an address in a store and how to mend it; None if nothing is."""
    bucket, _, key = address.partition("://")[2].partition("/")
    if "::" in address:
        return "`::` joins file systems, and some keep copies", "write the address in the store alone"
    if not bucket or not key.strip("/") or any(mark in bucket for mark in WILD):
        return "names no object", "write for instance s3://bucket/persons-{period}/*.parquet"
    if any("**" in part and part != "**" for part in key.split("/")):
        return "`**` stands for whole folders", "write * for a part of a name, and /**/ for folders"
    return None
