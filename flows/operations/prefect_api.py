"""The API of flow runs: the Prefect API that is configured, the one that ``tabularium up`` runs for the home,
or a server of this command's own.

Nothing here imports Prefect unless a flow is to run or a setting of Prefect's might name an API: the library
takes more than a second to import, its server four.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import typer

from tabularium.flows.operations.listeners import LOOPBACK, listening_while_served, port_held, server_command
from tabularium.flows.operations.names_in_prefect import FLOW
from tabularium.flows.operations.prefect_limits import LOCAL_SETTINGS
from tabularium.flows.operations.server_address import (
    answers,
    credentials,
    is_its_own,
    is_running,
    new_sign_in,
    past_proxies,
    written_address,
)
from tabularium.flows.operations.supervisor import end_with_the_keeper
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import bare_errors

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

#: Flow runs that a server gives at once, at most.
PAGE = 200
_DEFAULTS = {
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "DO_NOT_TRACK": "1",
}
# A setting of the API in a profile, in .env, in prefect.toml or in pyproject.toml.
_API = re.compile(r"prefect_api_url|^\s*\[(tool\.prefect\.)?api\]|^\s*api(\.url)?\s*=", re.I | re.M)
_STARTUP = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
_SENDING_SECONDS = 30.0
_STARTUP_SECONDS = 180.0  # a fresh home's database is migrated first, which takes long on a busy machine


def configured_url() -> str | None:
    """Return the URL of the Prefect API that the environment, a profile or a settings file names.

    Prefect is the judge; it is asked only where one of the places it reads could name an API.
    """
    named = os.environ.get("PREFECT_API_URL")
    if named is not None:
        return named or None
    if not any(_may_name_an_api(path) for path in _settings_files()):
        return None
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


def _settings_files() -> list[Path]:
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")).expanduser()
    return [profiles, *map(Path, LOCAL_SETTINGS)]


def _may_name_an_api(path: Path) -> bool:
    try:
        return bool(_API.search(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False


@contextlib.contextmanager
def connected(home: Home, *, needed: bool = True) -> Iterator[str | None]:
    """Have what uses Prefect inside the block use the API of this installation.

    That is the API that is configured (PREFECT_API_URL, a profile), with its credentials; otherwise the one
    that ``tabularium up`` runs for ``home``.

    ``needed``: whether there must be one. Otherwise one that does not answer is passed over with a line.

    Yields its URL, without a password; None if there is none and none is needed.

    Raises
    ------
    InputError
        If one is needed and none answers.
    """
    _prepare()
    url = configured_url()
    if url is not None:
        failure = _unanswered(url)
        if failure is not None and needed:
            raise failure
        if failure is not None:
            typer.echo(f"passed over: {failure.line()}", err=True)
        yield _without_password(url) if failure is None else None
        return
    with contextlib.ExitStack() as stack:
        written = written_address(home)
        held = written is not None and stack.enter_context(port_held(written))
        home_url = (
            url_of_home(home) if held else None
        )  # in this order: who answers is the home's, and stays so
        if home_url is not None:
            with settings_of(home_url, credentials(home)):
                yield home_url
            return
    if needed:
        raise InputError(
            "no Prefect API answers for this home",
            where=str(home.path),
            hint=f"start it with tabularium up{home.option}, or name yours in PREFECT_API_URL",
        )
    yield None


def url_of_home(home: Home) -> str | None:
    """Return the URL of the API that ``tabularium up`` runs for a home, if it answers, without Prefect."""
    url = written_address(home)
    if url is None:
        return None
    if is_running(home) and is_its_own(home) and answers(f"{url}/admin/version", credentials(home)):
        return url
    typer.echo(f"passed over: no server answers at {url}, where the home says one was", err=True)
    return None


@contextlib.contextmanager
def api_for_runs(home: Home) -> Iterator[str]:
    """Have flows of the block run on the API of this installation, or on a server that ends with the block.

    Yields its URL.

    Raises
    ------
    InputError
        If the API that is configured does not answer, or the server does not come up.
    """
    with connected(home, needed=configured_url() is not None) as url:
        if url is not None:
            yield url
            return
    with own_server() as server, settings_of(server.url, server.sign_in):
        yield server.url


@contextlib.contextmanager
def settings_of(url: str, sign_in: str | None) -> Iterator[None]:
    """Have what uses Prefect inside the block use the API at ``url``, signed in with ``user:password``."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    os.environ.update(past_proxies(url))
    with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: sign_in}):
        yield


def _prepare() -> None:
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    # At the end of a process it counts what it has still to send, past Prefect's own level of logging.
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)
    _make_home()


@bare_errors
def _make_home() -> None:
    folder = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(
            f"Prefect's home cannot be made ({error.strerror})",
            where=str(folder),
            hint="set PREFECT_HOME to a folder of yours",
        ) from None


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _unanswered(url: str) -> InputError | None:
    """Return what is wrong with the API that is configured, if anything is."""
    from prefect.client.orchestration import get_client

    reason = None
    try:
        with get_client(sync_client=True) as client:
            reason = client.api_healthcheck()
            if reason is None:
                client.api_version()  # needs the right to use the API, where its health is everybody's
    except Exception as error:
        reason = error
    if reason is None:
        return None
    return InputError(
        f"the Prefect API does not answer ({type(reason).__name__})",
        where=_without_password(url),
        hint="start that server, correct PREFECT_API_URL or its credentials, or unset it to run without",
    )


@dataclass(frozen=True)
class OwnServer:
    """A server of this process.

    ``sign_in``: what it asks for, ``user:password``; worth nothing once it has ended.
    """

    url: str
    sign_in: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """Return what a process that is to use the API needs in its environment."""
        return {"PREFECT_API_URL": self.url, "PREFECT_API_AUTH_STRING": self.sign_in}


@contextlib.contextmanager
def own_server() -> Iterator[OwnServer]:
    """Run a Prefect server on a free port of this machine, in a process of its own, while the block runs."""
    sign_in = new_sign_in()
    environment = {"PREFECT_SERVER_API_AUTH_STRING": sign_in, "PREFECT_SERVER_UI_ENABLED": "false"}
    with listening_while_served() as listener:
        url = f"http://{LOOPBACK}:{listener.getsockname()[1]}/api"
        # Ctrl-C goes to every process of the terminal's session: the server must outlive what it serves.
        server = subprocess.Popen(  # noqa: S603 - this very Python, on a port of this machine
            server_command(listener),
            env={**os.environ, **environment},
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o077,
            preexec_fn=end_with_the_keeper,  # noqa: PLW1509 - this thread starts nothing else meanwhile
        )
        listener.close()
        try:
            _wait_for(server, url)
            yield OwnServer(url, sign_in)
        finally:
            if server.poll() is None:
                _send_what_waits()
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()
            server.wait()


def _send_what_waits() -> None:
    """Have Prefect send its events and logs: at the end of the process it would try for a minute or two."""
    for module, name in (
        ("prefect.events.worker", "EventsWorker"),
        ("prefect.logging.handlers", "APILogWorker"),
    ):
        if module in sys.modules:
            getattr(sys.modules[module], name).drain_all(timeout=_SENDING_SECONDS)


def _wait_for(server: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + float(os.environ.get(_STARTUP, _STARTUP_SECONDS))
    while server.poll() is None and time.monotonic() < end:
        if answers(f"{url}/health"):
            return
        time.sleep(0.1)
    raise InputError(
        "no Prefect server came up on this machine",
        where="--prefect",
        hint="run without --prefect, or start a server (prefect server start) and name it in PREFECT_API_URL",
    )


def runs_of(client: SyncPrefectClient, **filters: Any) -> list[FlowRun]:
    """Return all flow runs that pass the filters, the newest first: the server gives a page at a time."""
    from prefect.client.schemas.sorting import FlowRunSort

    runs: dict[Any, FlowRun] = {}
    for offset in count(0, PAGE):
        page = client.read_flow_runs(**filters, sort=FlowRunSort.ID_DESC, limit=PAGE, offset=offset)
        runs |= {run.id: run for run in page}
        if len(page) < PAGE:
            break
    return list(runs.values())


@contextlib.contextmanager
def asking_once(home: Home) -> Iterator[SyncPrefectClient]:
    """Have a client of the API of a home that gives up soon, as for a page that somebody looks at.

    Raises
    ------
    InputError
        If none is known, or it does not answer, also while it is asked.
    """
    from httpx import HTTPError
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}),
            connected(home),
            get_client(sync_client=True) as client,
        ):
            yield client
            return
    except HTTPError as error:
        reason = type(error).__name__
    raise InputError(f"does not answer ({reason})", where="the Prefect API", hint="start it: tabularium up")


def deployments_of_products(client: SyncPrefectClient) -> list[DeploymentResponse]:
    """Return the deployments of all products: the server gives a page at a time."""
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName
    from prefect.client.schemas.sorting import DeploymentSort

    of_products = FlowFilter(name=FlowFilterName(any_=[FLOW]))
    deployments: list[DeploymentResponse] = []
    for offset in count(0, PAGE):
        page = client.read_deployments(
            flow_filter=of_products, sort=DeploymentSort.NAME_ASC, limit=PAGE, offset=offset
        )
        deployments += page
        if len(page) < PAGE:
            break
    return deployments
