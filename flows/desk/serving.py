"""Serving a desk on 127.0.0.1 until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tabularium.flows.desk import decision_page, draft_page
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.pages import (
    account,
    accounts,
    history,
    product,
    products,
    release,
    verify,
    waiting,
    withdraw,
)
from tabularium.flows.desk.safety import HOSTS, Asked, Document, Elsewhere, Guard, Page, Session
from tabularium.flows.desk.signing import signed_since
from tabularium.mechanisms.errors import InputError, TabulariumError
from tabularium.tasks.report.wording import templates

# The application: addresses, pages, and what becomes of an error.


Given = Page | Elsewhere | Document
Answers = Callable[[Desk, Asked], Given]
LARGEST_FORM = 64 * 1024
"""Bytes of a form, at most."""
_FORM = "application/x-www-form-urlencoded"
_STYLES = (
    Path(__file__).parents[2] / "tasks/report/page/report.css",
    Path(__file__).parent / "page/desk.css",
)
PAGES: dict[tuple[str, str], Answers] = {
    ("GET", "/"): waiting,
    ("GET", "/approve"): decision_page.look,
    ("POST", "/approve"): decision_page.approve,
    ("GET", "/drafts/{release}"): draft_page.look,
    ("GET", "/drafts/{release}/report.html"): draft_page.report,
    ("POST", "/drafts/{release}/accept"): draft_page.accept,
    ("POST", "/drafts/{release}/withhold"): draft_page.withhold,
    ("GET", "/attempts/{release}"): decision_page.attempts,
    ("POST", "/attempts/{release}"): decision_page.allow,
    ("GET", "/decided/{number}"): decision_page.decided,
    ("POST", "/unlock"): decision_page.unlock,
    ("POST", "/lock"): decision_page.lock,
    ("GET", "/accounts"): accounts,
    ("GET", "/accounts/{account}"): account,
    ("GET", "/releases"): products,
    ("GET", "/releases/{release}"): release,
    ("POST", "/releases/{release}/verify"): verify,
    ("POST", "/releases/{release}/withdraw"): withdraw,
    ("GET", "/products/{product}"): product,
    ("GET", "/history"): history,
}


def application(desk: Desk, session: Session) -> ASGIApp:
    """Return the application of a desk, guarded."""
    routes = [
        Route(address, _endpoint(desk, session, answers), methods=[method])
        for (method, address), answers in PAGES.items()
    ]
    style = "\n".join(path.read_text(encoding="utf-8") for path in _STYLES)

    async def styles(_request: Request) -> Response:
        return Response(style, media_type="text/css", headers={"Cache-Control": "private, max-age=3600"})

    async def odd(_request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        what = "There is no such page." if status == 404 else "This page is not asked for in that way."
        return _rendered(desk, session, Page("error.html.jinja", {"line": what, "signed": None}, status))

    async def no_picture(_request: Request) -> Response:  # browsers ask for it by themselves
        return Response(status_code=204)

    routes += [Route("/desk.css", styles), Route("/favicon.ico", no_picture)]
    return Guard(Starlette(routes=routes, exception_handlers={404: odd, 405: odd}), session)


def _endpoint(desk: Desk, session: Session, answers: Answers) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        form = None
        if request.method == "POST":
            form = await _form_of(request)
            if form is None or not session.filled_in(form.pop("secret", "")):
                line = "This form is not one of this session of the desk: go back, load the page again."
                return _rendered(
                    desk, session, Page("error.html.jinja", {"line": line, "signed": False}, 403)
                )
        asked = Asked(request.path_params, dict(request.query_params), form)
        return await run_in_threadpool(_answer, desk, session, answers, asked, request.url.path)

    return endpoint


async def _form_of(request: Request) -> dict[str, str] | None:
    """Return what a form holds; None of one that is none, or too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        return None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_FORM:
            return None
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body)))
    except ValueError:
        return None


def _answer(desk: Desk, session: Session, answers: Answers, asked: Asked, path: str) -> Response:
    before = None if asked.form is None else desk.last_entry()
    try:
        return _rendered(desk, session, answers(desk, asked))
    except TabulariumError as error:
        line, status = error.line(), 400
    except PermissionError as error:
        file = error.filename or "a file of the installation"
        line, status = f"{file}: may not be used by the user who started the desk; see its owner, mode", 400
    except Exception as error:  # nothing of it is shown: it may hold what is confidential
        line, status = f"An unexpected {type(error).__name__} stopped this. Try it on the command line.", 500
    signed = None if asked.form is None else signed_since(desk, asked, before)
    back = "" if asked.form is None else _page_of_form(asked, path)
    shows = {"line": line, "signed": signed, "back": back}
    return _rendered(desk, session, Page("error.html.jinja", shows, status))


def _page_of_form(asked: Asked, path: str) -> str:
    """Return the address of the page with the form that was sent to this path."""
    if path == "/unlock":
        return decision_page.own_address(asked.value("back"))
    if path == "/approve":
        return decision_page.address_of(asked)
    return (
        path.rpartition("/")[0] if path.endswith(("/accept", "/withhold", "/verify", "/withdraw")) else path
    )


def _rendered(desk: Desk, session: Session, given: Given) -> Response:
    if isinstance(given, Elsewhere):
        return RedirectResponse(given.address, 303)
    if isinstance(given, Document):
        return Response(
            given.content, media_type=given.media_type, headers={"Content-Security-Policy": given.policy}
        )
    page = templates("tabularium.flows.desk", "tabularium.tasks.report").get_template(given.template)
    shown = page.render(desk=desk, secret=session.form_secret, **given.shows)
    return HTMLResponse(shown, given.status)


_LEAVING_SECONDS = 2  # for pages that are being made


def serve(desk: Desk, port: int, say: Callable[[str], None]) -> None:
    """Serve a desk, and say under which address; a line on standard input asks for a new one.

    Parameters
    ----------
    port
        0 for any that is free.
    say
        Called with each address; the first who opens it is let in.

    Raises
    ------
    InputError
        The port is in use.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOSTS[0], port))
        listening.listen()  # a browser may come before the first page can be made
    except OSError as error:
        reason = error.strerror
    else:
        port = listening.getsockname()[1]
        session = Session(port)
        # Neither addresses, which hold the token, nor errors, which may hold more, are logged.
        config = uvicorn.Config(
            application(desk, session),
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # they could name another client than the one that is there
            lifespan="off",
            timeout_graceful_shutdown=_LEAVING_SECONDS,
        )
        say(_address(port, session.new_token()))
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=_new_addresses, args=(session, port, say), daemon=True).start()
        threading.Thread(target=desk.prepare, daemon=True).start()
        with listening:
            asyncio.run(_Server(config).until_stopped(listening))
        return
    raise InputError(
        f"cannot be used ({reason})", where=f"port {port}", hint="name another with --port, or 0"
    )


class _Server(uvicorn.Server):
    """Ends by a signal, quietly."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :meth:`until_stopped`: uvicorn would raise them again once it has ended."""
        yield

    async def until_stopped(self, listening: socket.socket) -> None:
        """Serve until a signal comes."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, setattr, self, "should_exit", True)
        await self.serve(sockets=[listening])


def _new_addresses(session: Session, port: int, say: Callable[[str], None]) -> None:
    for _line in sys.stdin:
        say(_address(port, session.new_token()))


def _address(port: int, token: str) -> str:
    return f"http://{HOSTS[0]}:{port}/enter?token={token}"
