"""Access to the desk: only for the browser of the person who started it.

It listens on 127.0.0.1 only. The address that is printed holds a token that opens one session; from then on
a cookie names it, which no script can read and no other site makes the browser send. A form holds a second
secret of the session. A request that names another host is refused, so that no name that leads to 127.0.0.1
makes another site's page ours; so is one that comes from another origin.

A browser sends a cookie of 127.0.0.1 to every port of it, also to a server that another user of this machine
runs. So where the system tells whose a connection is, one of another user than the desk's is refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
#: Nothing is loaded but the style and the pictures of the desk, and a draft's report in a frame.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
#: For the report of a draft: whatever it holds, it runs no script, sends no request and has no links.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'self'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_READING = ("GET", "HEAD")
#: Where Linux tells of every connection whose it is, and how an IPv4 address is written there.
_CONNECTIONS = {"/proc/net/tcp": "", "/proc/net/tcp6": "0000000000000000FFFF0000"}


class Session:
    """The one session of a desk.

    ``form_secret``: what every form of the session holds.
    """

    def __init__(self, port: int) -> None:
        self.cookie = f"tabularium-desk-{port}"
        self.form_secret = secrets.token_urlsafe(32)
        self._name = secrets.token_urlsafe(32)
        self._token: str | None = None
        self.origins = tuple(f"http://{host}:{port}" for host in HOSTS)
        self.new_token()

    def new_token(self) -> str:
        """Return a new token that opens the session once; the one before it opens it no more."""
        self._token = secrets.token_urlsafe(32)
        return self._token

    def opened_by(self, token: str) -> bool:
        """Whether a token opens the session; it does so once."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return False
        self._token = None
        return True

    def is_named_by(self, headers: Headers) -> bool:
        """Whether a cookie of a request names the session.

        Cookies of other programs on this machine come with it, whatever their form.
        """
        held = (
            cookie.strip().partition("=") for line in headers.getlist("cookie") for cookie in line.split(";")
        )
        return any(
            name == self.cookie and hmac.compare_digest(value.encode(), self._name.encode())
            for name, _, value in held
        )

    def filled_in(self, secret: str) -> bool:
        """Whether a form is one of the session."""
        return hmac.compare_digest(secret.encode(), self.form_secret.encode())

    def enter(self, response: Response) -> None:
        """Give the browser the cookie."""
        response.set_cookie(self.cookie, self._name, httponly=True, samesite="strict", path="/")


class Guard:
    """Middleware: refuses requests from outside the session, and limits what pages may do."""

    def __init__(self, inner: ASGIApp, session: Session) -> None:
        self._inner, self._session = inner, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - ASGI
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(scope) if scope["type"] == "http" else Response(status_code=403)
        if answer is None:
            await self._inner(scope, receive, with_headers)
        else:
            await answer(scope, receive, with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """Return what a request gets that the application is not asked about."""
        headers = Headers(scope=scope)
        if scope["client"] is None or not is_own(scope["client"], scope["server"]):
            return _plainly(
                "The desk answers only to the user who started it, and to no other user of this machine."
            )
        if (why := self._refused(scope["method"], headers)) is not None:
            return _plainly(why)
        if scope["path"] == "/enter":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if scope["method"] not in _READING or not self._session.opened_by(given):
                return _plainly(
                    "This address was used, or is none that was printed. "
                    "Press Enter where the desk was started: it prints a new one."
                )
            entered = RedirectResponse("/", 303)
            self._session.enter(entered)
            return entered
        if not self._session.is_named_by(headers):
            return _plainly(
                "Open the address that the desk has printed: it lets in who started it, by a cookie."
            )
        return None

    def _refused(self, method: str, headers: Headers) -> str | None:
        """Return why a request is not from a page of the desk, or typed by its user; None if it may be."""
        hosts = [origin.partition("//")[2] for origin in self._session.origins]
        if headers.getlist("host") not in [[host] for host in hosts]:
            return f"The desk answers only to {_or(hosts)}."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin not in self._session.origins:
            return "This was sent by a page of another site."
        if method not in _READING and (origin is None or site not in (None, "same-origin")):
            return "Only a page of the desk may send a form of the desk."
        return None


def is_own(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection on this machine is of the user who runs this process; if nobody tells, it is.

    ``client``, ``server``: IPv4 addresses and ports of both ends.
    """
    users: set[int] = set()
    tells = False
    for table, before in _CONNECTIONS.items():
        ends = [
            f"{before}{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
            for host, port in (client, server)
        ]
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields, tells = line.split(), True
                if fields[1:3] == ends:
                    users.add(int(fields[7]))
    return users == {os.geteuid()} or not tells


def _plainly(why: str) -> Response:
    return Response(f"{why}\n", 403, media_type="text/plain")


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)


# What a page is asked for, and what it gives back.


@dataclass(frozen=True)
class Asked:
    """A request that was let in.

    Attributes
    ----------
    path, query
        Parts of the address by name.
    form
        What a form holds; None of a page that is only looked at.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] | None = None

    def value(self, name: str) -> str:
        """Return what a form or an address has under a name, without blanks around it; empty if nothing."""
        return (self.form or self.query).get(name, "").strip()


@dataclass(frozen=True)
class Page:
    """A page: a template, and what it shows."""

    template: str
    shows: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Elsewhere:
    """That the browser is to go to another address of the desk."""

    address: str


@dataclass(frozen=True)
class Document:
    """A file that is shown as it is, under a policy of its own."""

    content: bytes
    media_type: str
    policy: str
