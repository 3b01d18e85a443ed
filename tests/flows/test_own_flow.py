"""A release inside an agency's own flow, in a repository with its own `flows` and `tasks`: as the page says."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import yaml
from prefect.utilities.importtools import import_object

import tabularium as tb
from tabularium.flows.operations.prefect_api import OwnServer
from tabularium.flows.release import release
from tabularium.tasks.runtime.run import Request
from tests.docs.pages import DOCS, blocks
from tests.flows.release.scene import write_scene

PAGE = DOCS / "how-to" / "use-it-in-your-own-flow.md"


def test_the_flow_takes_what_a_request_holds() -> None:
    """And when it was scheduled, from which a period is made."""
    taken = set(inspect.signature(release.fn).parameters)
    assert taken == {each.name for each in fields(Request)} | {"timezone", "cron"}


def test_the_flow_of_the_page_publishes(prefect_server: OwnServer, tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    spec.rename(tmp_path / "people.yaml")
    (tmp_path / "prepared").mkdir()
    (tmp_path / "people.csv").rename(tmp_path / "prepared" / "people-2031.csv")
    for block in blocks(PAGE):
        if block.kind == "python":
            (tmp_path / block.mark).parent.mkdir(exist_ok=True)
            (tmp_path / block.mark).write_text(block.text)
    for taken in ("flows/release.py", "flows/__init__.py", "tasks/__init__.py", "ledger.py"):
        (tmp_path / taken).write_text("")
    environment = {**os.environ, **prefect_server.environment()}
    words = [sys.executable, "-m", "flows.agency", "2031", str(home.path)]
    for _ in range(2):
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (public,) = (tmp_path / "public").iterdir()
    assert tb.open(public).period == "2031"
    assert len(tb.open_ledger(home.path).history("people")) == 1


def test_the_entrypoint_of_the_page_is_the_flow() -> None:
    (block,) = (each for each in blocks(PAGE) if each.kind == "yaml")
    (deployment,) = yaml.safe_load(block.text)["deployments"]
    assert import_object(deployment["entrypoint"]).name == "tabularium-release"
