"""Health checks of a home, which open no data.

Each look returns one finding, or several, and never raises: that something cannot be seen is a finding too.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from sqlalchemy import make_url

from tabularium.ledger import Charge, Ledger
from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.ledger.refusals import NoLedger
from tabularium.ledger.transactions import CONFIRM
from tabularium.ledger.witness import NO_SECOND
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.arrival.claims import LIVE, Claims, Drop
from tabularium.tasks.arrival.inboxes import Inbox, inboxes
from tabularium.tasks.arrival.manifest import MANIFEST
from tabularium.tasks.arrival.places import is_drop
from tabularium.tasks.custody.backup import is_whole
from tabularium.tasks.publish.release_folder import publication_folders
from tabularium.tasks.runtime.extras import DISTRIBUTION, EXTRAS
from tabularium.tasks.runtime.home import VARIABLE, Home, secret_command
from tabularium.tasks.runtime.stage import sanitised
from tabularium.tasks.sign.sign_release import release_key_file, signing_key

_GIB = 1 << 30
_LEAST, _SCARCE = 1 * _GIB, 10 * _GIB
_ALL = os.R_OK | os.W_OK | os.X_OK
_DELIVERING = 600.0  # seconds after which nothing more is to be expected of who delivers


@dataclass(frozen=True)
class HealthCheck:
    """The result of one check.

    ``hint``: what to do about it; empty where all is well.
    """

    thing: str
    state: Literal["ok", "warn", "fail"]
    said: str
    hint: str = ""


def health_checks(home: Home) -> Iterator[HealthCheck]:
    """Yield the checks that need only this machine."""
    for thing, look in (
        ("versions", _versions),
        ("home", lambda: _modes(home)),
        ("secret", lambda: _secret(home)),
        ("ledger", lambda: _ledger(home)),
        ("workspaces", lambda: _workspaces(home)),
        ("disk", lambda: _disk(home)),
        ("publication", lambda: _publication(home)),
        ("inboxes", lambda: _inboxes(home)),
    ):
        yield from seen(thing, look)


def seen(thing: str, look: Callable[[], Iterator[HealthCheck]]) -> list[HealthCheck]:
    """Return the results of a check; if it fails, the reason."""
    try:
        return list(look())
    except Exception as error:
        failure: TabulariumError = sanitised(error, thing)
    message = f"{failure.where}: {failure.what}" if failure.where else failure.what
    return [HealthCheck(thing, "fail", message, failure.hint)]


def _versions() -> Iterator[HealthCheck]:
    message = f"tabularium {metadata.version(DISTRIBUTION)}, Python {sys.version.split()[0]}"
    wrong = []
    for line in metadata.requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        extras = [extra for extra in ("", *EXTRAS) if _is_asked(requirement, extra)]
        if not extras:
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            if "" in extras or "run" in extras:
                wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} {version} is not {requirement.specifier}")
    if wrong:
        yield HealthCheck(
            "versions", "fail", f"{message}: {', '.join(wrong)}", "install with the constraints file"
        )
    else:
        yield HealthCheck("versions", "ok", message)


def _is_asked(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _modes(home: Home) -> Iterator[HealthCheck]:
    """Check that nobody else can read private files."""
    ledger_folder = home.ledger_folder
    private = [
        home.path,
        home.workspaces,
        home.diagnoses,
        home.tracebacks,
        home.measurements,
        ledger_folder / "inputs",
    ]
    private += [home.path / "server", home.path / "server" / "password", home.secret_file]
    private.append(release_key_file(home))
    url = make_url(home.ledger_url)
    if url.get_backend_name() == "sqlite" and url.database:
        private.append(Path(url.database))
    open_to_others = [path for path in private if path.exists() and path.stat().st_mode & 0o077]
    for path in open_to_others:
        mode = "700" if path.is_dir() else "600"
        yield HealthCheck("home", "fail", f"other users may read {path}", f"chmod {mode} {path}")
    if not open_to_others:
        yield HealthCheck("home", "ok", f"{home.path}, closed to other users")


def _secret(home: Home) -> Iterator[HealthCheck]:
    command = secret_command()
    if command is None and not home.has_secret:
        if (home.ledger_folder / "secret.check").exists():
            home.require_secret()
        yield HealthCheck("secret", "ok", "none yet; the first release makes it")
        return
    home.secret()
    where = str(home.secret_file) if command is None else f"from the command in {VARIABLE}"
    if command is not None and home.secret_file.exists():
        yield HealthCheck(
            "secret",
            "warn",
            f"{where}, and a copy lies in {home.secret_file}",
            "remove that file, once the key store has a backup",
        )
        return
    yield HealthCheck("secret", "ok", where)


def _release_key(home: Home, ledger: Ledger) -> Iterator[HealthCheck]:
    key = signing_key(home, ledger)
    if not isinstance(key, str):
        yield HealthCheck("release key", "ok", f"{key_id(public_hex(key))}, enrolled")
    elif ledger.release_keys():
        hint = "put an enrolled key in place, or make and enrol one, if this machine publishes"
        yield HealthCheck("release key", "warn", f"releases are unsigned: {key}", hint)
    else:
        yield HealthCheck("release key", "ok", f"releases are unsigned: {key}")


def _ledger(home: Home) -> Iterator[HealthCheck]:
    store = MeasurementStore(home.measurements)
    try:
        opened = Ledger.connect(home.ledger_url, known_heads=store.heads(), make=False)
    except NoLedger as missing:
        if (home.ledger_folder / "secret.check").exists() or any(store.heads()):
            hint = f"releases were made under one: find it, or put it back: tabularium restore{home.option}"
            yield HealthCheck("ledger", "fail", f"{missing.where}: no ledger is there", hint)
        else:
            yield HealthCheck(
                "ledger", "warn", "none yet", "an officer opens an account: tabularium ledger open"
            )
        return
    with opened as ledger:
        head, accounts = ledger.head(), list(ledger.accounts())
        message = f"{ledger.name}: {head.seq} entries, {len(accounts)} accounts"
        if ledger.read_only is not None:
            hint = (
                CONFIRM + home.option
                if ledger.read_only == ledger.unconfirmed
                else "see tabularium ledger verify"
            )
            yield HealthCheck("ledger", "fail", f"{message}; read-only: {ledger.read_only}", hint)
        else:
            yield HealthCheck("ledger", "ok", message)
        yield _clock(ledger)
        if ledger.witnessed_elsewhere:
            yield HealthCheck("witness", "ok", "the head is remembered in a second place")
        else:
            yield HealthCheck(
                "witness",
                "warn",
                NO_SECOND.partition(" (")[0],
                "set TABULARIUM_WITNESS to a folder on another disk",
            )
        yield from seen("release key", lambda: _release_key(home, ledger))
        yield _measurements(home, ledger, [account.name for account in accounts])


def _clock(ledger: Ledger) -> HealthCheck:
    last = max((entry.body["at"] for entry in ledger.last_entries(1)), default=None)
    if last is None:
        return HealthCheck("clock", "ok", "the ledger has no entry to compare with")
    behind = datetime.fromisoformat(last) - datetime.now(UTC)
    if behind > timedelta(minutes=1):
        minutes = behind.total_seconds() / 60
        hint = (
            "compare this machine's clock with NTP; if it is right, the entry was dated by a wrong one: "
            f"wait, or set TABULARIUM_CLOCK_TOLERANCE={math.ceil(minutes)} until then"
        )
        return HealthCheck(
            "clock", "fail", f"{minutes:.0f} minutes behind the last entry of the ledger", hint
        )
    return HealthCheck("clock", "ok", "not behind the last entry")


def _measurements(home: Home, ledger: Ledger, accounts: list[str]) -> HealthCheck:
    store, missing, number = MeasurementStore(home.measurements), [], 0
    for name in accounts:
        for charge in ledger.all_charges(name):
            if charge.measurement_digest is not None:
                number += 1
                if store.complete(charge.measured_as, charge.fence) != charge.measurement_digest:
                    missing.append(charge.release_id)
    if missing:
        return HealthCheck(
            "measurements",
            "fail",
            f"{len(missing)} of {number} are missing or damaged, first of release {missing[0]}",
            f"restore {home.measurements} from the backup; nothing is drawn again",
        )
    return HealthCheck("measurements", "ok", f"of releases: {number}, in {home.measurements}")


def _workspaces(home: Home) -> Iterator[HealthCheck]:
    kept = [path for path in home.workspaces.glob("*") if (path / "keep").exists()]
    if kept:
        yield HealthCheck(
            "workspaces", "warn", f"{len(kept)} are kept and hold microdata, first {kept[0]}", "remove them"
        )
    else:
        yield HealthCheck(
            "workspaces", "ok", f"{sum(1 for _ in home.workspaces.glob('*'))} in use or to be swept"
        )


def _disk(home: Home) -> Iterator[HealthCheck]:
    for what, path in (("home", home.path), ("ledger", home.ledger_folder), ("workspaces", home.workspaces)):
        if what == "home" or (path.exists() and path.stat().st_dev != home.path.stat().st_dev):
            free = shutil.disk_usage(path).free
            state: Literal["ok", "warn", "fail"]
            state = "fail" if free < _LEAST else "warn" if free < _SCARCE else "ok"
            hint = "" if state == "ok" else "make room: a run needs space for its workspace"
            yield HealthCheck("disk", state, f"{free / _GIB:.1f} GiB free for the {what}", hint)


def _publication(home: Home) -> Iterator[HealthCheck]:
    """Check that each publication folder is there and writable."""
    bases = publication_folders(home)
    for base in bases:
        if not base.is_dir():
            hint = "mount or restore it: runs wait for it, and what was published is not to be seen"
            yield HealthCheck("publication", "fail", f"{base} is gone", hint)
        elif not os.access(base, _ALL):
            yield HealthCheck(
                "publication", "fail", f"{base} cannot be written", "let this user read and write there"
            )
        else:
            yield HealthCheck("publication", "ok", str(base))
    if not bases:
        yield HealthCheck("publication", "ok", "nothing was published yet")


def _inboxes(home: Home) -> Iterator[HealthCheck]:
    """Check that each inbox folder is there and writable, and list waiting drops; skip object stores."""
    known = list(inboxes(home))
    for inbox in known:
        path = Path(inbox.address)
        yield from _drops(home, inbox)
        if not inbox.is_folder:
            yield HealthCheck("inboxes", "ok", f"{inbox.product}: {inbox.address}, not asked")
        elif path.is_dir() and os.access(path, _ALL):
            yield HealthCheck("inboxes", "ok", f"{inbox.product}: {path}")
            yield from _unfinished(inbox, path)
        else:
            hint = "make the folder, and let this user read and write there"
            yield HealthCheck("inboxes", "fail", f"{inbox.product}: {path} cannot be used", hint)
    if not known:
        yield HealthCheck("inboxes", "ok", "none")


def _unfinished(inbox: Inbox, path: Path) -> Iterator[HealthCheck]:
    """Name the drops that have been without a manifest for long."""
    with os.scandir(path) as entries:
        names = [
            entry.name
            for entry in entries
            if is_drop(entry.name)
            and entry.is_dir(follow_symlinks=False)
            and time.time() - entry.stat().st_mtime > _DELIVERING
            and not Path(entry.path, MANIFEST).exists()
        ]
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        message = f"{inbox.product}: {min(names)}{more} without {MANIFEST}, and nobody writes there now"
        yield HealthCheck(
            "drops", "warn", message, f"let the deliverer put {MANIFEST} there, as the last file"
        )


def _drops(home: Home, inbox: Inbox) -> Iterator[HealthCheck]:
    """Count the drops that need a person, or wait for their run."""
    with Claims.at(home) as claims:
        states = Counter(drop.state for drop in claims.of_product(inbox.product))
    bad = states["quarantined"] + states["refused"]
    counts = {
        "in quarantine": bad,
        "failed": states["failed"],
        "under way": states["arrived"] + states["started"],
    }
    if any(counts.values()):
        message = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
        if bad:
            hint = f"read the lines next to them: {inbox.address}/quarantine"
        else:
            hint = "see their runs in Prefect's UI" if states["failed"] else ""
        yield HealthCheck("drops", "warn" if hint else "ok", f"{inbox.product}: {message}", hint)


# --- whether the ledger, the publication folders and the drops tell the same story
#
# ::
#
#     drop ──release id──▶ charge ◀──name of the folder, SHA-256 of its certificate── published folder
#
# Each is compared with the other two, and what does not fit is named, a line each. No data are opened.

#: After so long somebody should look why nothing follows.
_LONG = timedelta(hours=1)


def account_for(home: Home) -> Iterator[HealthCheck]:
    """Yield what does not fit; if everything fits, one result says what was compared.

    Raises
    ------
    LedgerError
        If there is no ledger, or it cannot be read.
    """
    with Ledger.connect(home.ledger_url, make=False) as ledger:
        charges = {
            charge.release_id: charge
            for account in ledger.accounts()
            for charge in ledger.all_charges(account.name)
        }
    drops, bases = Claims.known(home), publication_folders(home)
    lying = (path for base in bases for path in sorted(base.glob("[!.]*/[!.]*/[!.]*")))
    folders = [path for path in lying if path.is_dir() and not path.is_symlink()]
    amiss = [
        *(_gone(base) for base in bases if not base.is_dir()),
        *_charges(charges, folders, bases, home),
        *_folders(charges, folders),
        *_drops_that_arrived(charges, drops),
    ]
    yield from amiss
    if not amiss:
        message = (
            f"{len(charges)} charges, {len(folders)} folders and {len(drops)} drops: each fits the others"
        )
        yield HealthCheck("accounts", "ok", message)


def _gone(base: Path) -> HealthCheck:
    return HealthCheck(
        "folders", "fail", f"{base}: releases were published here, and it is gone", "mount or restore it"
    )


def _charges(
    charges: dict[str, Charge], folders: list[Path], bases: list[Path], home: Home
) -> Iterator[HealthCheck]:
    there = {path.name for path in folders}
    # A release and its tallies have charges of their own, and one certificate.
    published: dict[str, list[Charge]] = {}
    for charge in charges.values():
        if charge.state == "published" and charge.publication_digest is not None:
            published.setdefault(charge.publication_digest, []).append(charge)
        elif not charge.final and not _waits(charge) and _since(charge.changed_at) > _LONG:
            yield HealthCheck(
                "charges",
                "warn",
                f"{_of(charge)}: {charge.state} since {charge.changed_at}, and nothing followed",
                f"run it again, or give it up: tabularium ledger abandon {charge.release_id}{home.option}",
            )
    if all(base.is_dir() for base in bases):  # else that is reported, and these folders lie there
        for same in published.values():
            if not there & {charge.release_id for charge in same}:
                yield HealthCheck(
                    "folders",
                    "fail",
                    f"{_of(same[0])}: published, and its folder is gone",
                    f"tabularium rebuild SPEC{home.option}: it is rebuilt, and nothing is charged",
                )


def _folders(charges: dict[str, Charge], folders: list[Path]) -> Iterator[HealthCheck]:
    for folder in folders:
        charge = charges.get(folder.name)
        if charge is None:
            yield HealthCheck(
                "folders",
                "warn",
                f"{folder}: the ledger knows no such release",
                "find out whose it is: another ledger's, or this ledger is an old copy",
            )
        elif charge.state != "published":
            yield HealthCheck(
                "folders",
                "fail",
                f"{folder}: lies among what is published, and its charge is {charge.state}",
                "run its spec again, which ends what was begun",
            )
        elif not is_whole(folder, charge):
            yield HealthCheck(
                "folders",
                "fail",
                f"{folder}: is not what was published",
                f"see what differs: tabularium verify {folder}; then move it away and run its spec again",
            )


def _drops_that_arrived(charges: dict[str, Charge], drops: list[Drop]) -> Iterator[HealthCheck]:
    for drop in drops:
        named = f"drop {drop.id} of {drop.product}, period {drop.period or 'not named'}"
        charge = charges.get(drop.release_id or "")
        since = datetime.fromtimestamp(drop.found_at, UTC)
        if drop.state == "published" and (charge is None or charge.state != "published"):
            became = (
                "the ledger knows no release of it" if charge is None else f"its charge is {charge.state}"
            )
            yield HealthCheck(
                "drops", "fail", f"{named}: recorded as published, and {became}", "run it again"
            )
        elif drop.state in LIVE and charge is not None and charge.state == "published":
            yield HealthCheck(
                "drops",
                "warn",
                f"{named}: {drop.state}, and its release is published",
                "run it again: it is free",
            )
        elif drop.state in LIVE and datetime.now(UTC) - since > _LONG:
            yield HealthCheck(
                "drops",
                "warn",
                f"{named}: {drop.state}, found at {since:%Y-%m-%dT%H:%M:%SZ}",
                "see its run in Prefect's UI",
            )


def _waits(charge: Charge) -> bool:
    """Whether an officer is to review it next."""
    return charge.review and charge.state == "measured"


def _of(charge: Charge) -> str:
    return f"release {charge.release_id} of {charge.product}, period {charge.period}"


def _since(then: str) -> timedelta:
    return datetime.now(UTC) - datetime.fromisoformat(then)
