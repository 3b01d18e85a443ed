"""``tabularium up``: what runs, who may use it, what is started again, and that nothing is left at the end."""

from __future__ import annotations

import json
import os
import signal
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tabularium.flows.operations.installation import database_url, is_loopback
from tabularium.flows.operations.prefect_api import connected, url_of_home
from tabularium.flows.operations.server_address import credentials, write_address
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tests.flows.operations.installations import Up, children, running
from tests.flows.operations.products import deployed, history, published_once, state, until
from tests.flows.release.scene import write_scene

pytestmark = pytest.mark.xdist_group("operations")


def test_the_server_lets_in_whoever_knows_the_password_of_the_home(installation: Up) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{installation.url}/admin/version")
    with installation.client() as client:
        assert client.api_version()


def test_the_password_is_for_its_owner_alone(installation: Up) -> None:
    file = installation.home.path / "server" / "password"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = credentials(installation.home).partition(":")[2]
    words = [words for _, words in children(installation.process.pid)]
    assert len(words) >= 2
    assert not [line for line in words if secret in line]
    assert secret not in installation.said.read_text() + installation.log("server") + installation.log(
        "worker"
    )
    server = installation.home.path / "server"
    for path in server.rglob("*"):
        public = path.relative_to(server).parts[0] == "ui"  # the page, as it is in Prefect's package
        assert public or not path.stat().st_mode & 0o077, path


def test_nothing_listens_beyond_this_machine(installation: Up) -> None:
    ours = {pid for pid, _ in children(installation.process.pid)}
    sockets = {
        str(link.readlink())
        for pid in ours
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    listening = [
        fields[1]
        for table in ("tcp", "tcp6")
        for fields in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets
    ]
    assert listening
    assert {address.partition(":")[0] for address in listening} == {"0100007F"}  # 127.0.0.1


def test_one_installation_a_home(installation: Up) -> None:
    done = installation.run_cli("up", "--port", "0", check=False)
    assert done.returncode == 1
    assert "an installation of this home runs already" in done.stderr


@pytest.mark.audit
def test_a_server_that_dies_is_started_again_and_found(tmp_path: Path) -> None:
    with running(tmp_path / "home") as up:
        up.kill("prefect_server")
        until("it has ended", lambda: url_of_home(up.home) is None, 20)
        until("another is found", lambda: url_of_home(up.home) == up.url, 120)


@pytest.mark.audit
def test_a_signal_in_the_middle_of_a_restart_is_not_lost(tmp_path: Path) -> None:
    with running(tmp_path / "home") as up:
        (up.halts / "forks").write_text(str(up.process.pid))
        up.kill("tabularium.flows.cli.app watch")
        assert up.process.wait(60) == 0
        assert "Exception ignored" in up.said.read_text()
        assert up.said.read_text().endswith("stopped\n")


def test_an_address_that_does_not_answer_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home.at(tmp_path / "home")
    assert url_of_home(home) is None
    assert not capsys.readouterr().err
    (home.path / "server").mkdir()
    write_address(home, "http://127.0.0.1:9/api", os.getpid())
    with connected(home, needed=False) as url:
        assert url is None
    assert capsys.readouterr().err.startswith("passed over: no server answers at http://127.0.0.1:9/api")
    with pytest.raises(InputError, match="start it with tabularium up --home"), connected(home):
        pass


@pytest.mark.audit
def test_a_release_by_hand_is_a_run_at_the_server_of_the_home(installation: Up, tmp_path: Path) -> None:
    spec, _ = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("product: small", "product: by-hand"))
    from tests.flows.operations.products import open_account

    open_account(installation.home)
    outcome = json.loads(installation.run_cli("run", str(spec), "--json").stdout)
    assert outcome["engine"] == f"prefect {installation.url}"
    assert outcome["status"] == "published"


@pytest.mark.audit
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_a_run_that_is_stopped_with_the_installation_goes_on_with_the_next(
    how: signal.Signals, tmp_path: Path
) -> None:
    with running(tmp_path / "home") as up, up.client() as client:
        product = deployed(up, client, tmp_path / "product", "stopped")
        up.halt(product.name, "measure")
        run = product.start(client)
        until("it halts where it is told", lambda: up.halted(product.name), 90)
        up.process.send_signal(how)
        assert up.process.wait(120) == 0
        assert not list(up.home.workspaces.iterdir())
        up.go_on(product.name)
    with running(tmp_path / "home") as up, up.client() as client:
        until("it ends", lambda: state(client, run) == "Completed", 180, lambda: history(client, run))
    published_once(product)


@pytest.mark.audit
def test_nothing_is_left_of_an_installation_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "home") as up:
        before = children(up.process.pid)
        up.process.kill()
        up.process.wait()
        until(
            "its processes end", lambda: not [pid for pid, _ in before if Path(f"/proc/{pid}").exists()], 30
        )
        with running(tmp_path / "home") as again:
            assert again.url != up.url
        up.process.returncode = 0


def test_what_is_reached_from_other_machines_is_told() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost")] == [True] * 3
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.0.2.1", "office.example")] == [False] * 4


@pytest.mark.parametrize(
    "given", ["postgresql://a:b@c/d", "postgresql+psycopg://a:b@c/d", "postgres://a:b@c/d"]
)
def test_the_database_gets_the_driver_that_prefect_needs(given: str) -> None:
    assert database_url(given) == "postgresql+asyncpg://a:b@c/d"


def test_a_database_that_is_none_is_refused_without_its_text() -> None:
    with pytest.raises(InputError) as refused:
        database_url("mysql://somebody:secret@there/db")
    assert "secret" not in str(refused.value)
