"""Sources in a spec: the microdata, look-ups, and addresses in object stores."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import parse_qs, parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from tabularium.validations.domains.encoding import Separators
from tabularium.validations.release_spec.kinds import Part, TableInDatabase, format_of
from tabularium.validations.release_spec.scalars import (
    ColumnName,
    Positive,
    RawText,
    Reason,
    RejectLimit,
    Text,
    matching,
    refuse,
)

Format = Literal["csv", "parquet"]
_SECRET_NAME = re.compile("(pass|password|passwd|passphrase|pwd|secret|token|api_?key|access_key)$")
_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,3})\])?|spark://[A-Za-z0-9._-]+:[0-9]{1,5}(,[A-Za-z0-9._-]+:[0-9]{1,5})*"
)


class Limits(Part):
    """How much is read before a source is refused, so that nothing odd occupies the machine."""

    columns: Positive = Field(default=4_096, description="The most columns of a CSV file.")
    files: Positive = Field(default=100_000, description="The most files.")
    unpacked: Positive = Field(
        default=100,
        description="How many times its size a compressed CSV file may become; up to 1 GiB any may. For a "
        "Parquet file: how many rows it may have for each of its bytes; up to 100 million any may.",
    )


def url_problem(url: str) -> tuple[str, str] | None:
    """Return what is wrong with a database URL and a hint, without quoting it; None if nothing is."""
    try:
        parts = urlsplit(url)
        secret = parts.password is not None
        names = [name.lower() for name, _ in parse_qsl(parts.query)]
    except ValueError:
        return "is not a URL", "write for instance postgresql://host/database"
    if not parts.scheme or "://" not in url:
        return "is not a URL", "write for instance postgresql://host/database"
    if secret or any(map(_SECRET_NAME.search, names)):
        hint = "remove it; use the database's own password file or environment variable"
        return "there is a password or a key in the URL, and specs are read by many", hint
    return None


def way_problem(url: str) -> tuple[str, str] | None:
    """Return what is unsafe about the connection to a server and a hint; None if nothing is.

    A socket of this machine is safe; over the network the server must prove who it is.
    """
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    named = [parts.netloc.rpartition("@")[2], *asked.get("host", ())]
    hosts = [host for hosts_text in named for host in hosts_text.split(",") if host]
    elsewhere = sorted({"service", "sslkeylogfile"} & asked.keys())
    if elsewhere:
        what = f"{elsewhere[0]} says elsewhere what the way is, or gives its keys away"
        return what, f"remove {elsewhere[0]} from the url, and write host and sslmode there"
    if all(host.startswith("/") for host in hosts) and "hostaddr" not in asked:
        return None
    if asked.get("sslmode") == ["verify-full"]:
        return None
    what = "the server would not have to prove who it is, and what it sends could be read on its way"
    return (
        what,
        "add sslmode=verify-full (and sslrootcert=FILE) to the url, or a socket: ?host=/var/run/postgresql",
    )


def _checked(problem: Callable[[str], tuple[str, str] | None]) -> AfterValidator:
    """Return a validator that refuses a text for which ``problem`` gives what is wrong and a hint."""

    def check(text: str) -> str:
        wrong = problem(text)
        if wrong is not None:
            raise refuse(*wrong)
        return text

    return AfterValidator(check)


def _postgresql_problem(url: str) -> tuple[str, str] | None:
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        hint = "write a url like postgresql://host/database?sslmode=verify-full, or engine: database"
        return "is not one of PostgreSQL", hint
    return way_problem(url)


def _master_problem(master: str) -> tuple[str, str] | None:
    if _MASTER.fullmatch(master):
        return None
    return "is no cluster", "write spark://host:7077, or local[4] for this machine"


def _engine(name: str, other: str, what: str) -> BeforeValidator:
    """Return what refuses the engine of another kind of source, and says ``what`` reads this one."""

    def check(engine: object) -> object:
        if engine != name:
            raise refuse(what, f"write engine: {name}, engine: {other}, or leave it out")
        return engine

    return BeforeValidator(check)


_PATH = (
    "A file, a glob (`visits/*.parquet`) or a folder of partitioned files, relative "
    "to the spec file; or an address in an object store, "
    "`s3://bucket/people.parquet`. `{period}` stands for the period. `--source` "
    "replaces it, relative to the current folder."
)
_URL = (
    "A database URL such as `postgresql://host/database`, without a password: use "
    "the database's own password file or environment variable."
)
_ENGINE = (
    "What reads and counts: `duckdb` files (the default); `database` a copy of the "
    "needed columns (the default for a url); `postgresql` the table where it is; "
    "`spark` Parquet files on a cluster."
)
Thousands = Annotated[
    RawText | None,
    Field(
        description="The character between groups of three digits where numbers are text: a point, a comma, "
        "a space, an apostrophe or `_`."
    ),
]
DecimalMark = Annotated[
    Literal[".", ","] | None,
    Field(description="The character before decimals where numbers are text: `.` or `,`; default: `.`."),
]
MaxRejected = Annotated[
    RejectLimit,
    Field(
        description="How many records may be rejected before the run stops: a count, or a percentage in "
        "quotes."
    ),
]


class Files(Part):
    """Files of one table, and how they are written."""

    path: Text | None = Field(default=None, description=_PATH)
    format: Format | None = Field(
        default=None,
        description="`csv` or `parquet`; default: by the ending: `.csv`, `.tsv` or `.txt`, also with `.gz` "
        "or `.zst`; `.parquet` or `.pq`.",
    )
    delimiter: RawText = Field(
        default=",",
        description='The character between values; a tab is `"\\t"` in double quotes.',
    )
    quote: Literal['"', "none"] = Field(
        default='"',
        description="What may enclose a value. `none`: files are read in parallel, and a quote is refused.",
    )
    nulls: tuple[RawText, ...] = Field(default=("",), description="The texts that mean null in a CSV file.")
    thousands: Thousands = None
    decimal: DecimalMark = None
    ignore: tuple[Text, ...] = Field(
        default=(),
        description="What to leave out below `path`: patterns of names (`*.md`) or paths (`archive/*.csv`).",
    )
    limits: Limits = Field(default=Limits(), description="How much is read before a source is refused.")

    @property
    def file_format(self) -> Format | None:
        """The format of the files: as written, or inferred from the ending; None where neither says it."""
        return self.format or (format_of(self.path) if self.path else None)

    @property
    def separators(self) -> Separators:
        """How numbers are written in its text."""
        return Separators(self.thousands, self.decimal or ".")


class PublishedSource(Files):
    """A source as a release publishes it: how its text is read, without where it is."""

    max_rejected: MaxRejected = 0


class FileSource(PublishedSource):
    """Files that DuckDB reads."""

    kind_name: ClassVar[str] = "a source of files"
    written_as: ClassVar[str] = "path"
    path: Text = Field(description=_PATH)
    engine: Annotated[Literal["duckdb"], _engine("duckdb", "spark", "files are read by duckdb or spark")] = (
        Field(default="duckdb", description=_ENGINE)
    )


class SparkFiles(PublishedSource):
    """Parquet files that a cluster reads."""

    kind_name: ClassVar[str] = FileSource.kind_name
    written_as: ClassVar[str] = "engine: spark"
    path: Text = Field(description=_PATH)
    engine: Literal["spark"] = Field(description=_ENGINE)
    master: Annotated[Text, _checked(_master_problem)] = Field(
        description="The cluster of `spark`: `spark://host:7077`, or `local[4]` for this machine.",
        examples=["spark://host:7077, or local[4] for this machine"],
    )


class DatabaseTable(Part):
    """A table of a database."""

    kind_name: ClassVar[str] = "a source in a database"
    url: Annotated[Text, _checked(url_problem)] = Field(description=_URL)
    table: TableInDatabase = Field(
        description="The table behind `url`, or `schema.table`.", examples=["people"]
    )
    max_rejected: MaxRejected = 0


class CopiedTable(DatabaseTable):
    """A table whose needed columns are copied."""

    written_as: ClassVar[str] = "url"
    separators: ClassVar[Separators] = Separators(None, ".")
    engine: Annotated[
        Literal["database"], _engine("database", "postgresql", "a url is read by its database")
    ] = Field(default="database", description=_ENGINE)


class PostgresTable(DatabaseTable):
    """A table of PostgreSQL that is counted where it lies."""

    written_as: ClassVar[str] = "engine: postgresql"
    url: Annotated[Text, _checked(url_problem), _checked(_postgresql_problem)] = Field(description=_URL)
    engine: Literal["postgresql"] = Field(description=_ENGINE)
    thousands: Thousands = None
    decimal: DecimalMark = None

    @property
    def separators(self) -> Separators:
        """How numbers are written in its text."""
        return Separators(self.thousands, self.decimal or ".")


SOURCES: dict[str, type[Part]] = {
    "[files]": FileSource,
    "[spark]": SparkFiles,
    "[database]": CopiedTable,
    "[postgresql]": PostgresTable,
    "[published]": PublishedSource,
}
"""Kinds of source by the tags by which pydantic tells them apart; no key of a file."""


def _kind_of_source(written: Any) -> str | None:
    if not isinstance(written, dict):
        return next((tag for tag, kind in SOURCES.items() if type(written) is kind), "[files]")
    if "path" in written:
        return "[spark]" if written.get("engine") == "spark" else "[files]"
    if "url" in written:
        return "[postgresql]" if written.get("engine") == "postgresql" else "[database]"
    return "[published]"


def _placed(written: object) -> object:
    if isinstance(written, dict) and not {"path", "url"} & written.keys():
        hint = "add path: for files, or url: and table: for a database"
        raise refuse("there is neither a path nor a url", hint)
    return written


_Placed = (
    Annotated[FileSource, Tag("[files]")]
    | Annotated[SparkFiles, Tag("[spark]")]
    | Annotated[CopiedTable, Tag("[database]")]
    | Annotated[PostgresTable, Tag("[postgresql]")]
)
Source = Annotated[_Placed, Discriminator(_kind_of_source), BeforeValidator(_placed)]
"""Where the microdata are, as it is written."""
AnySource = Annotated[
    _Placed | Annotated[PublishedSource, Tag("[published]")], Discriminator(_kind_of_source)
]
"""The same, or what a release publishes of it."""


def published_source(source: AnySource) -> PublishedSource:
    """Return what a release publishes of a source; of a database the defaults of text."""
    return PublishedSource.model_validate(
        {name: value for name, value in source if name in PublishedSource.model_fields}
    )


class LookUp(Files):
    """A table in which more is found about a record of the source: one of public facts, or of its unit."""

    public: Reason | None = Field(
        default=None,
        description="Why it is public and would be the same for any other people: one line of at most 200 "
        "characters, which is published. Nothing in it is protected.",
    )
    unit: ColumnName | None = Field(
        default=None,
        description="The column with the id of the privacy unit that a row belongs to: a record finds only "
        "rows of its own unit.",
    )
    key: ColumnName | None = Field(
        default=None,
        description="The column in which a value is looked up. Not needed if each unit has one row.",
    )
    source_column: ColumnName | None = Field(
        default=None,
        alias="from",
        description="The column with this value, of the source or a look-up above, such as "
        "`homes.municipality`; default: the name of the key.",
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
    look_up, _, column = name.partition(".")
    return (look_up, column) if column and look_up in lookups else ("", name)


def located(path: str, period: str, folder: Path) -> str:
    """Return the absolute path, glob or folder meant next to a spec, or an address, for one period."""
    if "://" in path:
        return path.replace("{period}", period)
    # The name of a period has no slash and begins with a letter or digit: the path stays in its folder.
    return os.path.abspath(folder / path.replace("{period}", period))  # noqa: PTH100 - a glob is not a path


def public_name(name: str) -> str:
    """Return the name of the digest of a public look-up among public files."""
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
#: These make a pattern of a name.
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
    """Return the remark on an address with credentials in it, without quoting it; None of any other."""
    scheme, _, rest = address.partition("://")
    owned = scheme in _OWNED and _OWNER.fullmatch(rest)
    if (owned or _PLAIN.fullmatch(rest)) and not _SECRET.search(rest):
        return None
    what = "there is a password or a key in the address, and specs are read by many"
    return what, "remove it; the environment or the store's own settings hold it"


def store_problem(address: str) -> tuple[str, str] | None:
    """Return what is wrong with an address in a store and a hint; None if nothing is."""
    bucket, _, key = address.partition("://")[2].partition("/")
    if "::" in address:
        return "`::` joins file systems, and some keep copies", "write only the address in the store"
    if not bucket or not key.strip("/") or any(mark in bucket for mark in WILD):
        return "names no object", "write for instance s3://bucket/persons-{period}/*.parquet"
    if any("**" in part and part != "**" for part in key.split("/")):
        return "`**` stands for whole folders", "write * for a part of a name, and /**/ for folders"
    return None
