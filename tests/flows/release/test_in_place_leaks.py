"""A release of a table that stays in PostgreSQL tells the server no secret, and nobody its records.

The server logs every statement, with how long it took and its parameters. Neither that log nor anything that
the runs left behind, in homes, Prefect's database, publication folders, temporary files and on the console,
may hold a sentinel of the records or a key of a home.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tabularium.tasks.runtime.home import Home
from tests.flows.release.in_place_leak_driver import BROKEN
from tests.flows.release.leak_driver import COUNT, INVALID, NAME
from tests.flows.release.test_leaks import left_behind, searched, traces
from tests.ledger.storage.postgres import Server
from tests.tasks.engines import one_spec

pytestmark = pytest.mark.audit
AGE, INCOME = 86753091, 7743158.25  # numbers of a record, far beyond the bounds of the spec
BORN = "1907-07-07"
LOGGED = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "log_error_verbosity": "verbose",
}
PURPOSES = (
    "input",
    "release id",
    "bounding",
    "inputs of accounts",
    "input of a release",
    "tally charge",
    "heads",
)
QUOTED = f'invalid input syntax for type integer: "{INVALID}"'


class Aftermath(NamedTuple):
    """What runs left behind, and what the server said of them."""

    root: Path
    log: str


def put(server: Server, database: str, folder: Path) -> None:
    """Fill the table: sentinels in every column, and so many records in one cell."""
    marked = (f"{NAME} 1", INVALID, INVALID, BORN, f"{NAME} home", AGE, INCOME)
    one_spec.put(server, database, one_spec.write(folder, [*one_spec.ROWS, marked, marked]))
    columns = ", ".join(name for name in one_spec.SCHEMA.names if name != "age")
    failing = f"CAST(CASE WHEN region = '{INVALID}' THEN region END AS int) AS age"
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO people SELECT '{NAME} of ' || n, 'n', '1', '1950-05-05', 'h' || n, 40, 5.5"  # type: ignore[call-overload]
            f" FROM generate_series(1, {COUNT}) AS n"
        )
        connection.execute(f"CREATE VIEW {BROKEN} AS SELECT {columns}, {failing} FROM people")  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def aftermath(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    """Runs on a database that logs all there is to log."""
    if not server.socket:
        pytest.skip("the folder of the server's socket has too long a name")
    database, root = server.new_database(), tmp_path_factory.mktemp("in-place")
    put(server, database, root / "input" / "records")
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        for name, value in LOGGED.items():
            connection.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")  # type: ignore[call-overload]
    before = len(server.log())
    left_behind(root, "in_place_leak_driver", one_spec.on_postgresql(server, database))
    said = server.log()[before:]
    yield Aftermath(root, said)
    server.drop_database(database)


def forms(key: bytes) -> list[bytes]:
    """A key as it may be written: its bytes, hexadecimal, base64 wherever it begins in what is encoded."""
    whole = [key, key.hex().encode(), key.hex().upper().encode()]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # The first and last digits depend on what stands before and after.
        whole += [encode(bytes(shift) + key)[4 : 4 * (len(key) // 3)] for shift in range(3)]
    return whole


def keys(root: Path) -> dict[str, list[bytes]]:
    """The keys of all homes: home and purpose -> how they may be written."""
    homes = [Home(path.parent) for path in root.glob("*/secret")]
    found = {str(home.path.name): home.secret() for home in homes}
    found |= {f"{home.path.name}, {each}": home.subkey(each) for home in homes for each in PURPOSES}
    return {name: forms(key) for name, key in found.items()}


def marks(data: bytes) -> list[str]:
    """The sentinels found in some bytes."""
    numbers = [str(each) for each in (AGE, INCOME, BORN) if str(each).encode() in data]
    return [*traces(data), *numbers]


def test_the_search_finds_what_it_looks_for() -> None:
    key = bytes(range(7, 39))
    for before in (b"", b"x", b"xy", b"xyz"):
        for told in (
            before + key,
            base64.b64encode(before + key + b"z"),
            base64.urlsafe_b64encode(before + key),
        ):
            assert any(form in told for form in forms(key))
        assert any(form in (before + key).hex().encode() for form in forms(key))
    assert not any(form in base64.b64encode(key[::-1]) for form in forms(key))
    assert marks(f"{AGE} {INCOME} {NAME}".encode()) == [NAME, str(AGE), str(INCOME)]


def test_each_run_ended_as_meant(aftermath: Aftermath) -> None:
    told = (aftermath.root / "output.txt").read_text()
    for line in ("in place: published", "invalid values: RunRefused", "a view that fails: RunRefused"):
        assert re.search(f"^{line}", told, re.MULTILINE), told[-3000:]


def test_the_server_is_told_no_key_and_no_record(aftermath: Aftermath) -> None:
    log = aftermath.log
    for what in ("GROUPING SETS", "sha256", "duration: ", "arameters: ", "row_security"):
        assert what in log, what  # the log does have statements, times and parameters
    told = {name for name, each in keys(aftermath.root).items() if any(form in log.encode() for form in each)}
    assert not told
    assert QUOTED in log  # the server's own error, of the agency's own view
    assert not marks(log.replace(QUOTED, "").encode())


def test_nothing_else_holds_a_key_or_a_record(aftermath: Aftermath) -> None:
    found, known = searched(aftermath.root), keys(aftermath.root)
    assert len(known) == 3 * (1 + len(PURPOSES))
    for path in aftermath.root.rglob("*"):
        if path.is_file() and aftermath.root / "input" not in path.parents and path.name != "secret":
            data = path.read_bytes()
            said = [name for name, each in known.items() if any(form in data for form in each)]
            if said := said + [each for each in marks(data) if each in {str(AGE), str(INCOME), BORN}]:
                found.setdefault(str(path.relative_to(aftermath.root)), []).extend(said)
    assert not found
    assert not [left for place in aftermath.root.glob("*/workspaces") for left in place.iterdir()]
