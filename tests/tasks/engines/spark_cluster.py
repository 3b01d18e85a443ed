"""A standalone cluster of Spark on this machine: a master and two workers, each a process of its own."""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.debian import found

_CLASS = "org.apache.spark.deploy"
_PATIENCE = 120  # seconds; a virtual machine takes some five to start


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a cluster; give the address of its master, and let sessions of this process find its secret.

    Raises
    ------
    Unavailable
        Java is not installed.
    """
    import pyspark

    found("default-jre-headless")
    settings = folder / "conf" / "spark-defaults.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"spark.authenticate true\nspark.authenticate.secret {secrets.token_hex(32)}\n")
    known = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(settings.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in known.items():
            patch.setenv(name, value)
        run = Path(known["SPARK_HOME"]) / "bin" / "spark-class"
        here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = stack.enter_context(_started([run, f"{_CLASS}.master.Master", *here], folder / "master.log"))
        master = _wait_for(r"Starting Spark master at (spark://\S+)", log)
        for name in ("one", "two"):
            words = [run, f"{_CLASS}.worker.Worker", *here, "--cores", "1", "--memory", "1g", master]
            log = stack.enter_context(_started(words, folder / f"{name}.log"))
            _wait_for(r"(Successfully registered with master)", log)
        yield master


def executors_used(folder: Path) -> int:
    """Return how many executors ran: each worker has one core, and so at most one of them."""
    return len(list((folder / "work").glob("app-*/*")))


@contextmanager
def _started(words: list[str | Path], log: Path) -> Iterator[Path]:
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()


def _wait_for(pattern: str, log: Path) -> str:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(log.read_text(errors="replace")[-2000:])
