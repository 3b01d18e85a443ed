"""Extras of the distribution, and the libraries that they install."""

from __future__ import annotations

from importlib.util import find_spec

from tabularium.mechanisms.errors import NotInstalled

DISTRIBUTION = "tabularium-dp"
#: Extra -> the packages of its libraries, by the names that they are imported by.
EXTRAS = {
    "run": (
        *("alembic", "cyclonedx", "dp_accounting", "fsspec", "great_expectations", "ibis", "numba"),
        *("packageurl", "pyrage", "scipy", "sqlalchemy", "sqlglot"),
    ),
    "prefect": ("anyio", "apprise", "httpx", "prefect", "watchfiles"),
    "formats": ("lxml", "pysdmx", "rdflib", "xlsxwriter"),
    "report": ("matplotlib",),
    "desk": ("starlette", "uvicorn"),
    "postgres": ("psycopg",),
    "spark": ("pyspark",),
    "s3": ("s3fs",),
    "stat": ("pyreadstat",),
}
_EXTRA = {library: extra for extra, libraries in EXTRAS.items() for library in libraries}


def require(*libraries: str, where: str) -> None:
    """Check, before anything begins, that libraries of extras are installed; none is imported.

    Raises
    ------
    NotInstalled
        Naming the first that is not, and its extra.
    """
    for library in libraries:
        lacking = not_installed(ModuleNotFoundError(name=library), where)
        if lacking is not None and find_spec(library) is None:
            raise lacking


def not_installed(error: ImportError, where: str = "") -> NotInstalled | None:
    """Return the error that names the extra to install, if one of its libraries could not be imported."""
    library = (error.name or "").partition(".")[0]
    if library not in _EXTRA:
        return None
    return NotInstalled(
        f"{library} is not installed", where=where, hint=f"install {DISTRIBUTION}[{_EXTRA[library]}]"
    )
