"""Address and password of the server of a home: both are files of the home.

::

    <home>/server/          mode 0700
        address.json         URL of the API, and the process that runs it; there while `tabularium up` runs
        password             mode 0600; what clients sign in with, and a person in the UI, whole as it stands
        prefect/             what Prefect keeps: PREFECT_HOME of the server and the worker

A client of the API can run code as the user of the worker, so it is never open without the password.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import http.client
import json
import os
import secrets
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tabularium.flows.operations.listeners import listens
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home, make_once

_USER = "tabularium"
_PATIENCE = 5.0  # seconds in which a server of this machine answers, if it is there
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy would hear the password


def server_folder(home: Home) -> Path:
    """Return the folder of what belongs to the server, made if it is not there."""
    folder = home.path / "server"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def credentials(home: Home) -> str:
    """Return what the server of the home asks for, ``user:password``, made on first use."""
    target = server_folder(home) / "password"
    if not target.exists():
        make_once(target, f"{new_sign_in()}\n".encode())
    return target.read_text(encoding="utf-8").strip()


def new_sign_in() -> str:
    """Return what a server may ask for, ``user:password``, that nobody can guess."""
    return f"{_USER}:{secrets.token_urlsafe(24)}"


def write_address(home: Home, url: str, process: int) -> None:
    """Let the commands of this home find the API at ``url``."""
    target = _address_file(home)
    aside = target.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps({"url": url, "pid": process}) + "\n", encoding="utf-8")
    aside.chmod(0o600)
    aside.replace(target)


def forget_address(home: Home) -> None:
    """Let nobody look for a server that has stopped."""
    _address_file(home).unlink(missing_ok=True)


def written_address(home: Home) -> str | None:
    """Return the URL that the last ``tabularium up`` of the home wrote, if it did not stop in order."""
    return _written(home)[0]


def is_its_own(home: Home) -> bool:
    """Tell whether it is the home's server that listens at the address it wrote, and no other process."""
    url, process = _written(home)
    return url is not None and listens(process, url)


def _written(home: Home) -> tuple[str | None, int]:
    try:
        written = json.loads(_address_file(home).read_text(encoding="utf-8"))
        return str(written["url"]), int(written["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, 0


def answers(page: str, sign_in: str | None = None) -> bool:
    """Tell whether a server of this machine answers at the URL of a page, and lets in who signs in so."""
    token = "" if sign_in is None else base64.b64encode(sign_in.encode()).decode()
    asked = urllib.request.Request(page, headers={"Authorization": f"Basic {token}"} if token else {})  # noqa: S310
    try:
        with _DIRECT.open(asked, timeout=_PATIENCE) as answer:
            return int(answer.status) == 200
    except (OSError, ValueError, http.client.HTTPException):
        return False


def past_proxies(url: str) -> dict[str, str]:
    """Return variables by which a client asks the server at ``url`` itself, whatever proxy there is."""
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    direct = ",".join(dict.fromkeys(filter(None, [*known.split(","), str(urlsplit(url).hostname)])))
    return {"no_proxy": direct, "NO_PROXY": direct}


@contextlib.contextmanager
def only_installation(home: Home) -> Iterator[None]:
    """Be the only installation of the home that runs while the block does.

    Raises
    ------
    InputError
        If another one runs.
    """
    with _locked(home, fcntl.LOCK_EX, patience=1.0) as mine:
        if mine:
            yield
            return
    raise InputError(
        "an installation of this home runs already",
        where=str(home.path),
        hint="use that one, or stop it first",
    )


def is_running(home: Home) -> bool:
    """Tell whether an installation of the home runs; what one left that was killed says nothing."""
    with _locked(home, fcntl.LOCK_SH) as free:
        return not free


@contextlib.contextmanager
def _locked(home: Home, how: int, *, patience: float = 0.0) -> Iterator[bool]:
    end = time.monotonic() + patience  # somebody may just be looking whether one runs
    lock = server_folder(home) / "lock"
    lock.touch(mode=0o600)
    with lock.open("a") as file:
        while not (taken := _take(file.fileno(), how)) and time.monotonic() < end:
            time.sleep(0.1)
        yield taken


def _take(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _address_file(home: Home) -> Path:
    return home.path / "server" / "address.json"
