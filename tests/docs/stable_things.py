"""What docs/what-is-stable.md takes from the code: formats of files, and exit codes."""

from __future__ import annotations

from collections.abc import Iterator

from tabularium._verdict import NotARelease
from tabularium.ledger import events
from tabularium.mechanisms import errors
from tabularium.tasks.custody import backup
from tabularium.tasks.postprocess import postprocessing
from tabularium.tasks.publish import measurement_files, period_index
from tabularium.validations.certificate import certificate
from tabularium.validations.release_spec import load


def formats(_: str) -> str:
    """Return the table of formats."""
    remade = ", ".join(map(str, postprocessing.REMADE))
    rows = [
        ("entries of the ledger", events.FORMAT),
        ("certificate (`format`)", certificate.FORMAT),
        ("noisy measurements", measurement_files.FORMAT),
        ("`index.json` of a period", period_index.FORMAT),
        ("digest of a spec", load._DIGEST_FORMAT),
        ("backup", backup.FORMAT),
        (
            "post-processing (`postprocessing.version`)",
            f"{postprocessing.VERSION}; numbers can be made again for {remade}",
        ),
    ]
    return "\n".join(
        ["| of | version |", "|---|---|", *(f"| {what} | {version} |" for what, version in rows)]
    )


def exit_codes(_: str) -> str:
    """Return the table of exit codes."""
    explained = {errors.TabulariumError.exit_code, NotARelease.exit_code, errors.NotInstalled.exit_code}
    assert {kind.exit_code for kind in _tree(errors.TabulariumError)} == explained
    rows = [
        (0, "done"),
        (
            errors.TabulariumError.exit_code,
            "an error, in one line; or what was asked about is not in order (`check`, `verify`, `doctor`)",
        ),
        (NotARelease.exit_code, f"the command line is wrong; or, from `verify`, {_said(NotARelease)}"),
        (errors.NotInstalled.exit_code, _said(errors.NotInstalled)),
        (130, "stopped by Ctrl-C; by another signal N: 128 + N. The same command goes on"),
    ]
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| {code} | {text} |" for code, text in rows)])


def _tree(kind: type[errors.TabulariumError]) -> Iterator[type[errors.TabulariumError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("tabularium."):
            yield from _tree(below)


def _said(kind: type[errors.TabulariumError]) -> str:
    first = (kind.__doc__ or "").partition("\n")[0].rstrip(".")
    return first[:1].lower() + first[1:]
