"""``tabularium report``: write the page of a published release anew, from its folder alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.terminal import one_line_errors, out
from tabularium.mechanisms.errors import InputError

_EXAMPLE = """\
Example:  tabularium report releases/census/2026/ID --out report.html

Example:  tabularium report releases/census/2026/ID --last releases/census/2025/ID --out report.html"""


def report_release(
    folder: Annotated[
        Path, typer.Argument(help="A published release: holds certificate.json.", metavar="RELEASE")
    ],
    last: Annotated[
        Path | None,
        typer.Option(help="The release of an earlier period to compare with.", metavar="FOLDER"),
    ] = None,
    out_file: Annotated[Path, typer.Option("--out", help="New file to write.", metavar="FILE")] = Path(
        "report.html"
    ),
) -> None:
    """Write the report of a published release anew: one page, for people. Costs no budget.

    The release is compared with its certificate and that with itself, not with signature and ledger, as the
    page says at its head.
    """
    with one_line_errors():
        write_report(folder, last, out_file)
        out.print(f"Written: {out_file}", soft_wrap=True, highlight=False, markup=False)


def write_report(folder: Path, last: Path | None, out_file: Path) -> None:
    """Write the report of ``folder`` to a new file.

    Links in it are relative to the release: they lead to its files where the page lies beside them.

    Raises
    ------
    InputError
        No release lies in one of the folders, they are of different products, or the file cannot be written.
    PublicationError
        A release is not what its certificate says, or that contradicts itself.
    """
    from tabularium.tasks.publish.documents.making import without_documents
    from tabularium.tasks.publish.read_release import Released
    from tabularium.tasks.publish.release_folder import well_formed
    from tabularium.tasks.report.report import report

    if os.path.lexists(out_file):
        raise InputError("there is such a file", where=f"--out {out_file}", mend="name a new file")
    certificate = Released.open(folder, whole=True).certificate
    if last is not None:
        before = Released.open(last, whole=True).certificate
        if before["product"] != certificate["product"] or before["release_id"] == certificate["release_id"]:
            raise InputError(
                "this is no other release of the same product", where=f"--last {last}", mend="name one"
            )
    with well_formed(folder):
        page = report(folder, without_documents(certificate), last, compared_with=_compared(folder, last))
    try:
        out_file.write_bytes(page)
    except OSError as error:
        failure = InputError(
            f"cannot be written ({error.strerror})", where=f"--out {out_file}", mend="name another file"
        )
    else:
        return
    raise failure


def _compared(folder: Path, last: Path | None) -> tuple[str, str]:
    """Return what a page that is written anew says at its head."""
    both = "" if last is None else ", and so was the release before it"
    return (
        "This page was not compared with the agency's signature and the ledger: whoever can write a folder "
        "like this can make it say all that stands here. What compares them is: tabularium verify "
        f"{folder.name} --key agency.pub --export books.jsonl",
        "Compared were the files with the digests that the certificate names, and the certificate with what "
        f"its own spec, draws and files give{both}.",
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report", epilog=_EXAMPLE)(report_release)
