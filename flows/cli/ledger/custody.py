"""``tabularium ledger verify|export|restore|migrate|roles``: keeping a ledger for a long time."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabularium.flows.cli.ledger.shared_options import KeyOrNone, app, open_ledger, signer
from tabularium.flows.cli.terminal import (
    AsJson,
    HomePath,
    one_line_errors,
    out,
    print_json,
    say,
    working,
    write,
)
from tabularium.ledger import ChainBroken, Charge, Entry, Head, ReadOnly
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.ledger.records import TRANSITIONS
from tabularium.ledger.refusals import RESTORE
from tabularium.ledger.witness import NO_SECOND
from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.imported_later import Later
from tabularium.validations.public_files import Unreadable, json_object, read_plain

if TYPE_CHECKING:
    from tabularium.ledger import Ledger
    from tabularium.ledger import export as exported
    from tabularium.ledger.verify import Verified
else:
    exported = Later("tabularium.ledger.export")


def _certificate_at(path: Path) -> Path:
    from tabularium.validations.certificate import CERTIFICATE

    return path / CERTIFICATE if path.is_dir() else path


Certificates = Annotated[
    list[Path] | None,
    typer.Option(
        "--certificate",
        help="certificate.json or a release's folder, to compare with the ledger; repeatable.",
        callback=lambda paths: [_certificate_at(path) for path in paths or []],
    ),
]


@app.command("verify", epilog="Example:  tabularium ledger verify")
def verify(
    export: Annotated[
        Path | None, typer.Option(help="Verify this exported file, without a database.")
    ] = None,
    certificate: Certificates = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Verify the whole chain: compute every balance, cap, state and signature again."""
    if export is not None:
        with one_line_errors(), working("walking the chain"):
            verified = _verified_export(export, certificate or [])
        _report(verified, as_json)
        return
    with open_ledger(home, reading=True) as ledger:
        heads = [*_heads(certificate), *MeasurementStore(Home.found(home).measurements).heads()]
        with working("walking the chain"):
            verified = ledger.verify(heads)
        if ledger.read_only not in (None, ledger.unconfirmed):
            raise ChainBroken(
                f"its {verified.entries} entries are in order, but {ledger.read_only}",
                where=ledger.name,
                hint=RESTORE,
            )
        for path in certificate or []:
            _compare(path, ledger.charge(_named(path)[0]))
        _report(verified, as_json)
        if not as_json:
            _say_unconfirmed(ledger, Home.found(home))
        if not (certificate or as_json or ledger.witnessed_elsewhere):
            say(f"There is {NO_SECOND}.", style="yellow", soft_wrap=False)
            say("Whether it is the newest was not checked: give the newest --certificate.", style="yellow")


@app.command("export", epilog="Example:  tabularium ledger export books-2026.txt")
def export(
    file: Annotated[Path, typer.Argument(help="New file to write.")],
    home: HomePath = None,
) -> None:
    """Write the whole ledger to one file that anybody can verify offline.

    An altered entry is written as it is, and an error names it.
    """
    with open_ledger(home, reading=True) as ledger:
        with working("writing every entry"):
            head = exported.export(ledger, file)
        out.print(f"{head.seq} entries are in {file}; the head is {head.hash}.", soft_wrap=True, markup=False)


@app.command("restore", epilog="Example:  tabularium ledger restore books-2026.txt")
def restore(
    file: Annotated[Path, typer.Argument(help="Exported ledger.")],
    certificate: Certificates = None,
    home: HomePath = None,
) -> None:
    """Load an exported ledger into a new or empty database; one older than a known head is refused."""
    with one_line_errors():
        installation = Home.at(home)
        heads = [*_heads(certificate), *MeasurementStore(installation.measurements).heads()]
        with working("walking the chain, then writing it"):
            if certificate:
                _verified_export(file, certificate)
            restored = exported.restore(file, installation.ledger_url, heads)
        _report(restored, False)
        say(
            f"Put back from the backup as well: secret in {installation.path}; secret.check, inputs and"
            f" measurements in {installation.ledger_folder}. Without them releases would be drawn again.",
        )
        from tabularium.ledger import Ledger

        with Ledger.connect(installation.ledger_url) as ledger:
            _say_unconfirmed(ledger, installation)


def _say_unconfirmed(ledger: Ledger, installation: Home) -> None:
    from tabularium.ledger.transactions import CONFIRM

    if ledger.unconfirmed is not None:
        say(f"The ledger is read-only: {ledger.unconfirmed}; {CONFIRM}{installation.option}")


@app.command("confirm", epilog="Example:  tabularium ledger confirm 4be1f0a29c3d77e0 --key officer.pem")
def confirm(
    head: Annotated[
        str, typer.Argument(help="Hash of the newest head, known from elsewhere; 16 digits or more.")
    ],
    key: KeyOrNone = None,
    home: HomePath = None,
) -> None:
    """Confirm that a restored ledger is the newest, so that it accepts entries again.

    Sign (--key) while an officer's key is enrolled.
    """
    with open_ledger(home) as ledger:
        ledger.confirm(head, by=signer(key))
        say(f"The ledger accepts entries after its {ledger.head().seq} again.")


@app.command("migrate", epilog="Example:  tabularium ledger migrate")
def migrate(home: HomePath = None) -> None:
    """Create the ledger's tables, or restore their guard; refused when the chain does not verify."""
    with one_line_errors():
        from tabularium.ledger.storage.schema import REVISION
        from tabularium.ledger.transactions import GUARD

        url = Home.at(home).ledger_url
        with working("walking the chain"):
            done = exported.migrate(url)
        out.print(f"The tables are of revision {REVISION}, and their guard is in place.")
        if url.startswith("postgresql"):
            from tabularium.tasks.arrival.claims import Claims

            with Claims.at(Home.at(home)):  # its table is next to the ledger's; no runner may make tables
                pass
            out.print("Now give the roles their rights: see tabularium ledger roles --help.")
        _report(done.verified, False)
        if done.fault is not None:
            raise ReadOnly(f"the ledger is read-only: {done.fault}", where="ledger", hint=GUARD)


@app.command(
    "roles",
    epilog="Example:  tabularium ledger roles | psql -v ON_ERROR_STOP=1 -d books",
)
def roles() -> None:
    """Print the SQL that makes the roles of a ledger on PostgreSQL; it begins with instructions.

    Run it as the owner of the database and its tables, after `tabularium ledger migrate`. It takes CONNECT
    from PUBLIC: first GRANT CONNECT ON DATABASE to every login that is to keep it.
    """
    write((files("tabularium.ledger.storage") / "roles.sql").read_text(encoding="utf-8"), last=True)


def _report(verified: Verified, as_json: bool) -> None:
    if as_json:
        print_json({**vars(verified), "head": vars(verified.head)})
        return
    out.print(
        f"The chain of {verified.entries} entries is whole; its head is {verified.head.hash}.", soft_wrap=True
    )


def _verified_export(export: Path, certificates: list[Path]) -> Verified:
    """Verify an exported ledger, and certificates against the charges in it."""
    charges: dict[str, Charge] = {}
    names = {path: _named(path)[0] for path in certificates}

    def see(entry: Entry) -> None:
        if any(name in entry.text for name in names.values()) and entry.body["kind"] in TRANSITIONS:
            charge = Charge.of(entry.body)
            charges[charge.release_id] = charge

    verified = exported.verify_export(export, _heads(certificates), see=see)
    for path, name in names.items():
        _compare(path, charges.get(name))
    return verified


def _compare(path: Path, charge: Charge | None) -> None:
    """Hold a certificate against its charge, which must be published."""
    if charge is None or charge.state != "published":
        state = "does not know" if charge is None else f"has as {charge.state} and not as published"
        raise PublicationError(
            f"names a release that the ledger {state}",
            where=str(path),
            hint="take the ledger that it was charged in, or a newer export of it",
        )
    from tabularium.tasks.publish.verify_certificate import verify_certificate

    verify_certificate(path, charge)


def _heads(certificates: list[Path] | None) -> list[Head]:
    return [_named(path)[1] for path in certificates or []]


def _named(path: Path) -> tuple[str, Head]:
    """Return the release that a certificate names, and the head."""
    if not os.path.lexists(path):
        raise InputError(
            "there is no such file",
            where=str(path),
            hint="give a release's certificate.json, or its folder",
        )
    try:
        document = json_object(read_plain(path))
        name, named = document["release_id"], document["ledger"]["head"]
        seq, value = named["seq"], named["hash"]
        if isinstance(name, str) and name and type(seq) is int and isinstance(value, str):
            return name, Head(seq, value)
    except (Unreadable, KeyError, TypeError):
        pass
    raise InputError(
        "names no release and no head of a ledger",
        where=str(path),
        hint="give the certificate.json of a release",
    )
