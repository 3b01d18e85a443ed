"""Logins of a ledger on PostgreSQL, each with one of the roles of ``ledger/storage/roles.sql``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.ledger.scene import ROOT, superuser, url

ROLES = (ROOT / "ledger" / "storage" / "roles.sql").read_text()
LogIn = Callable[[str], str]


@contextmanager
def logins(place: Path) -> Iterator[LogIn]:
    """Make, for a role's name, a login that has the role and may connect to this ledger; give its URL."""
    superuser(place, ROLES)
    made: list[str] = []

    def make(role: str) -> str:
        name = f"{role}_{secrets.token_hex(4)}"
        superuser(
            place, f"CREATE ROLE {name} LOGIN", f"GRANT tabularium_{role} TO {name}", may_connect(place, name)
        )
        made.append(name)
        return login(place, name)

    yield make
    for name in made:
        drop(place, name)


def may_connect(place: Path, name: str) -> str:
    """The statement that lets a login connect to a ledger's database."""
    return f"GRANT CONNECT ON DATABASE {url(place).rpartition('/')[2]} TO {name}"


def login(place: Path, name: str) -> str:
    """The ledger's URL for a login."""
    return url(place).replace("://keeper@", f"://{name}@")


def name_of(login: str) -> str:
    """The login of a URL."""
    return login.partition("://")[2].partition("@")[0]


def drop(place: Path, name: str) -> None:
    """Drop a login, and what it has in the ledger's database."""
    superuser(place, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def did(login: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements as a login does from psql; return the rows of the last, if it has any."""
    with psycopg.connect(login.replace("+psycopg", "")) as connection:
        for statement in statements:
            done = connection.execute(statement)  # type: ignore[call-overload]
        return done.fetchall() if done.description else []
