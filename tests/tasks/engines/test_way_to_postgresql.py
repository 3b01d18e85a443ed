"""The way to a server that holds records: one that proves who it is, or a socket, before anything is sent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.engines.postgresql import PostgresSource
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.workspace import close_all
from tests.ledger.storage.postgres import OWNER, Server
from tests.tasks import front
from tests.tasks.engines import one_spec

Signer = tuple[x509.Name, ec.EllipticCurvePrivateKey]


def certified(common: str, signer: Signer | None = None) -> tuple[Signer, bytes]:
    """Return a key and its certificate: of an authority by itself, or of a server, signed by one."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)]),
    )
    by, with_key = signer or (name, key)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common)]), critical=False)
        .sign(with_key, hashes.SHA256())
    )
    return (name, key), made.public_bytes(Encoding.PEM)


@pytest.fixture(scope="module")
def authorities(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the authority that signed the server's certificate, and with another."""
    folder = tmp_path_factory.mktemp("authorities")
    signer, own = certified("agency")
    (folder / "own.crt").write_bytes(own)
    (folder / "other.crt").write_bytes(certified("agency")[1])
    (_, key), certificate = certified("localhost", signer)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, content in (("server.crt", certificate), ("server.key", private)):
        path = server.home / name
        path.write_bytes(content)
        path.chmod(0o600)
        if server.who:
            os.chown(path, server.who["user"], server.who["group"])
    files = {"ssl_cert_file": server.home / "server.crt", "ssl_key_file": server.home / "server.key"}
    _set(server, {**files, "ssl": "on"})
    yield folder
    _set(server, dict.fromkeys((*files, "ssl")))


def _set(server: Server, settings: dict[str, object]) -> None:
    """Have the running server take settings, or forget them."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        for name, value in settings.items():
            what = f"SET {name} = '{value}'" if value is not None else f"RESET {name}"
            connection.execute(f"ALTER SYSTEM {what}")  # type: ignore[call-overload]
        connection.execute("SELECT pg_reload_conf()")


def test_a_server_that_proves_who_it_is(server: Server, authorities: Path, tmp_path: Path) -> None:
    database = server.new_database()
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.ROWS))

    def ask(host: str, authority: str) -> str:
        way = f"sslmode=verify-full&sslrootcert={authorities / authority}"
        url = f"postgresql://{OWNER}@{host}:{server.port}/{database}?{way}"
        source = f'url: "{url}", table: people, engine: postgresql'
        return ingest_source(one_spec.spec(tmp_path, source, one_spec.SMALL), front.SECRET, tmp_path).digest

    for host, authority in (
        ("localhost", "other.crt"),
        ("127.0.0.1", "own.crt"),
    ):  # a stranger's; not its name
        with pytest.raises(InputError, match="no connection to the database"):
            ask(host, authority)
    assert ask("localhost", "own.crt")
    with psycopg.connect(server.dsn("postgres")) as connection:
        here = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = %s"
        assert connection.execute(here, (database,)).fetchall() == [(True,)]
    close_all(tmp_path)
    server.drop_database(database)


@pytest.mark.parametrize("how", ["PGHOST", "PGHOSTADDR", "PGSERVICE"])
def test_the_environment_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Not even for a greeting: who answers there would learn the user, and get the password."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.setblocking(False)
        (tmp_path / "services").write_text("[elsewhere]\nhost=127.0.0.1\n")
        for name, value in (
            ("PGSERVICEFILE", str(tmp_path / "services")),
            ("PGPORT", str(stranger.getsockname()[1])),
            ("PGCONNECT_TIMEOUT", "2"),
            (how, "elsewhere" if how == "PGSERVICE" else "127.0.0.1"),
        ):
            monkeypatch.setenv(name, value)
        with pytest.raises(
            InputError, match="PGHOST and the like: the server would not have to prove who it is"
        ):
            PostgresSource("postgresql:///people", "people", {}, frozenset())  # a socket, says the url
        with pytest.raises(BlockingIOError):
            stranger.accept()
