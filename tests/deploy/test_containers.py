"""The image and the compose file: right by their schemas, and what is promised of them."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import ComposeSpecification

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(set(SERVICES) - {"postgres"})
HOLDS_DATA = ("worker", "watcher")


def hadolint(dockerfile: str) -> str:
    """What the linter says of a Dockerfile; it says nothing of a good one."""
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [program, "--no-color", "-"], input=dockerfile, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_the_dockerfile_is_clean_and_the_linter_would_say_so() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert not hadolint(text)
    assert "DL3002" in hadolint(text + "USER root\n")


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["10001:10001"]
    assert {SERVICES[name]["user"] for name in OURS} == set(users)


def test_only_what_is_installed_goes_into_the_image() -> None:
    lines = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    named = [line.removeprefix("!") for line in rules if line.startswith("!")]
    assert all((DEPLOY.parent / name).exists() for name in named)
    install = (DEPLOY / "install.sh").read_text()
    assert all(Path(name).name in install for name in named)


def test_the_compose_file_holds_its_schema() -> None:
    ComposeSpecification.model_validate(COMPOSE)
    wrong = copy.deepcopy(COMPOSE)
    wrong["services"]["server"]["ports"] = {"4200": "everywhere"}
    with pytest.raises(ValueError, match="ports"):
        ComposeSpecification.model_validate(wrong)


def test_what_a_service_asks_for_is_there() -> None:
    for name, service in SERVICES.items():
        for kind in ("secrets", "networks"):
            assert set(service.get(kind, ())) <= set(COMPOSE[kind]), name
        for volume in service.get("volumes", ()):
            if isinstance(volume, str):
                assert volume.split(":")[0] in COMPOSE["volumes"], name
            elif volume["source"].endswith(".sh"):
                assert (DEPLOY / volume["source"]).exists()
        for key, value in service.get("environment", {}).items():
            if key.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], f"{name}: {key}"
        assert set(service.get("depends_on", {})) <= set(SERVICES), name


def test_nothing_is_reached_from_beyond_loopback() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports == {"server": ["127.0.0.1:4200:4200"]}
    assert COMPOSE["networks"]["inside"]["internal"]
    assert all(service["networks"] == ["inside"] for name, service in SERVICES.items() if name != "server")


def test_no_password_stands_in_the_file() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            secret = "PASSWORD" in key or "AUTH" in key
            assert not secret or value.startswith("/run/secrets/"), f"{name}: {key}"
            assert "@" not in str(value) or ":" not in value.split("://")[1].split("@")[0], f"{name}: {key}"
    assert {secret for service in SERVICES.values() for secret in service["secrets"]} == set(
        COMPOSE["secrets"]
    )


@pytest.mark.parametrize("name", OURS)
def test_our_services_cannot_change_their_code_or_gain_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert any(entry.startswith("/tmp:") for entry in service["tmpfs"])


@pytest.mark.parametrize("name", HOLDS_DATA)
def test_workspaces_are_in_memory_and_closed(name: str) -> None:
    (workspaces,) = (entry for entry in SERVICES[name]["tmpfs"] if entry.startswith("/run/tabularium:"))
    assert "mode=0700" in workspaces
    assert "TABULARIUM_WORKSPACES=/run/tabularium" in (DEPLOY / "Dockerfile").read_text()


def test_there_are_two_workers_and_one_watcher() -> None:
    assert SERVICES["worker"]["deploy"] == {"replicas": 2}
    assert "deploy" not in SERVICES["watcher"]


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
def test_passwords_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("admin:a b'c d e f\n")
    (tmp_path / "password").write_text("it's p q\n")
    done = subprocess.run(
        [DEPLOY / "with-secrets.sh", "sh", "-c",
         'printf "%s|%s|" "$PREFECT_API_AUTH_STRING" "$PREFECT_SERVER_API_AUTH_STRING";'
         'cat "$PGPASSFILE"; stat -c %a "$PGPASSFILE"'],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PREFECT_AUTH_FILE": str(tmp_path / "auth"),
             "PGPASSWORD_FILE": str(tmp_path / "password")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "admin:a b'c d e f|admin:a b'c d e f|*:*:*:*:it's p q\n600\n"
    assert not done.stderr


def test_a_password_that_drivers_read_differently_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p:q")
    done = subprocess.run(
        [DEPLOY / "with-secrets.sh", "true"],
        env={"PATH": "/usr/bin:/bin", "PGPASSWORD_FILE": str(tmp_path / "password")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "p:q" not in done.stderr
    assert "choose one without" in done.stderr


@pytest.mark.parametrize("text", ["", "\n", "admin", "admin:", ":abcdefgh", "admin:short12\n"])
def test_a_server_without_a_real_password_does_not_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "auth").write_text(text)
    for about, words in (
        ({"PREFECT_AUTH_FILE": str(tmp_path / "auth")}, ["true"]),
        ({"PREFECT_AUTH_FILE": ""}, ["echo", "prefect", "server", "start", "--host", "0.0.0.0"]),
    ):
        done = subprocess.run(
            [DEPLOY / "with-secrets.sh", *words],
            env={"PATH": "/usr/bin:/bin", **about}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("with-secrets: ") and "short12" not in done.stderr
