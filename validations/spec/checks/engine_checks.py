"""Engines that hold the records themselves: what they cannot do is refused before anything is opened."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.source_part import Source

_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,3})\])?|spark://[A-Za-z0-9._-]+:[0-9]{1,5}(,[A-Za-z0-9._-]+:[0-9]{1,5})*"
)


def check_engine(draft: Draft, source: Source) -> None:
    """Check that an engine has what it needs, is reached safely, and is asked nothing that it cannot do."""
    if source.master is not None and source.engine != "spark":
        draft.add(("source", "master"), "is for engine: spark", "remove it, or write engine: spark")
    if source.engine == "postgresql" and source.url is not None:
        _check_postgresql(draft, source.url)
    elif source.engine == "spark":
        _check_spark(draft, source)
    if source.engine in ("postgresql", "spark"):
        for name, look in draft.lookups.items():
            if look is not None and look.public is None:
                what = f"{source.engine} joins public look-ups alone"
                hint = (
                    "join the privacy unit's rows in a view or before writing the files, and name that source"
                )
                draft.add(("lookups", name), what, hint)


def _check_postgresql(draft: Draft, url: str) -> None:
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        hint = "write a url like postgresql://host/database?sslmode=verify-full, or engine: database"
        draft.add(("source", "url"), "is not one of PostgreSQL", hint)
        return
    wrong = way_problem(url)
    if wrong is not None:
        draft.add(("source", "url"), *wrong)


def _check_spark(draft: Draft, source: Source) -> None:
    if source.master is None:
        hint = "add master: with spark://host:7077, or local[4] for this machine"
        draft.add(("source", "engine"), "`master` is missing", hint)
    elif not _MASTER.fullmatch(source.master):
        draft.add(
            ("source", "master"), "is no cluster", "write spark://host:7077, or local[4] for this machine"
        )
    if source.path is not None and source.file_format == "csv":
        hint = "write the records as Parquet, or leave engine out"
        draft.add(
            ("source", "path"), "spark reads Parquet files, since it reads damaged CSV without a word", hint
        )
    elif source.path is not None and source.file_format is None:
        draft.add(
            ("source", "path"), "the ending does not say how the files are written", "add format: parquet"
        )


def way_problem(url: str) -> tuple[str, str] | None:
    """Return what is unsafe about the way to a server and how to mend it; None if nothing is.

    A socket of this machine is safe; over the network the server must prove who it is.
    """
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    named = [parts.netloc.rpartition("@")[2], *asked.get("host", ())]
    hosts = [host for each in named for host in each.split(",") if host]
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
