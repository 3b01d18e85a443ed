"""Addresses in object stores: which can be read, and what may not stand in one. No network is asked."""

from __future__ import annotations

import re

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
