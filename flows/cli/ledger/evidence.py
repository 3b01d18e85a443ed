"""``tabularium ledger evidence``: whether an input is the one that a release was made from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tabularium.flows.cli.ledger.shared_options import KeyFile, app, open_ledger, passphrase, say
from tabularium.flows.cli.options import AsJson, HomePath
from tabularium.flows.cli.terminal import print_json, working
from tabularium.ledger.keys import read_private
from tabularium.ledger.refusals import unknown_release
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import bare_errors


@app.command(
    "evidence", epilog="Example:  tabularium ledger evidence RELEASE census-2026.parquet --key officer.pem"
)
def evidence(
    release: Annotated[str, typer.Argument(help="Id of the release.")],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A file, glob, folder or URL.")],
    key: KeyFile,
    spec: Annotated[Path | None, typer.Option(help="The release spec, if the input is behind a URL.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why you ask; kept in the ledger.")] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Say whether RELEASE was made from INPUT. Only the home knows.

    The ledger records who asked about which release, signed, but not the answer.

    With --json: release_id, and same (true, false, or null where the home has lost what it knew).
    """
    with open_ledger(home) as ledger:
        charge = ledger.charge(release)
        if charge is None:
            raise unknown_release(release)
        Home.at(home).require_secret()
        by = read_private(key, passphrase())
        with working("reading the input"):
            digest = _digest(source, spec, charge.period, Home.at(home))
        ledger.ask_for_evidence(charge, by=by, reason=reason)
        from tabularium.tasks.input_binding import has_source, is_bound

        same = is_bound(Home.at(home), release, digest)
        if same is False and spec is None and has_source(Home.at(home), release, digest):
            raise InputError(
                "is the source of this release, and its look-ups belong to the input too",
                where="INPUT",
                hint="name the spec that reads them with --spec",
            )
        if as_json:
            print_json({"release_id": release, "same": same})
        elif same is None:
            say(f"The home does not know from which input release {release} was made.")
        else:
            say(f"This is {'' if same else 'not '}the input that release {release} was made from.")


@bare_errors
def _digest(source: str, spec: Path | None, period: str, home: Home) -> str:
    from tabularium.tasks.ingest.ingest import files_digest, ingest
    from tabularium.tasks.runtime.run import Request, opened

    if spec is not None:
        with opened(Request.of(spec, source, period, home.path), to_publish=False) as run:
            return ingest(run).digest
    if "://" in source:
        raise InputError("is a URL", where="INPUT", hint="name the spec that reads it with --spec")
    try:
        return files_digest(os.path.abspath(source), home.subkey("input"))  # noqa: PTH100 - it may be a glob
    except InputError as error:
        hint = "give the file, glob or folder of the release, or name the spec that reads it with --spec"
        raise InputError(error.what, where=f"INPUT {source}", hint=hint) from None
