"""The installation of the demo, in a process of its own, and what becomes of its runs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.lab.demo.demo_delivery import drop_lies_in
from tabularium.lab.demo.demo_typing import shown
from tabularium.flows.cli.terminal import out, working
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_PATIENCE = 180.0


@dataclass(frozen=True)
class Stop:
    """Where a flow run stands: its id, its state's type, and the state's own id."""

    run: str
    state: str
    state_id: str


@dataclass
class UpProcess:
    """``tabularium up`` of a home."""

    home: Home
    process: subprocess.Popen[str]
    began: float

    def wait(self) -> None:
        """Wait until it runs; show what it says.

        Raises
        ------
        InputError
            If it ends instead.
        """
        out.print(f"[bold]$ tabularium up --home {shown(self.home.path)}[/bold]", soft_wrap=True)
        with working("starting"):
            for line in self.process.stdout or ():
                out.print(line.rstrip(), highlight=False, markup=False, soft_wrap=True)
                if "Ctrl-C" in line:
                    out.print(f"[dim]ready after {time.monotonic() - self.began:.0f} s[/dim]")
                    return
        raise InputError(
            "the installation did not start",
            where=str(self.home.path / "server" / "logs"),
            hint="read the logs there, and try again",
        )

    def settle(self, inbox: Path) -> None:
        """Give the watcher time to put the drop away: it looks again every few seconds."""
        until = time.monotonic() + 10
        while drop_lies_in(inbox).parent == inbox and time.monotonic() < until:
            time.sleep(0.2)


@contextlib.contextmanager
def running_installation(home: Home, port: int) -> Iterator[UpProcess]:
    """Run ``tabularium up`` while the block runs."""
    words = ["up", "--home", str(home.path), "--port", str(port)]
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-P", "-m", "tabularium.flows.cli.app", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C comes here first, and then it is stopped in good order
    )
    try:
        yield UpProcess(home, process, time.monotonic())
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_run(home: Home, product: str, *wanted: str, after: Stop | None = None) -> Stop:
    """Wait until the last run of a product stands in one of the states, and say how long that took.

    Parameters
    ----------
    wanted
        ``SUSPENDED`` (it waits for an officer) or ``COMPLETED``.
    after
        Where it stood before: that is not what is waited for.

    Raises
    ------
    InputError
        If the run fails, or nothing happens for minutes.
    """
    from prefect.client.orchestration import get_client

    from tabularium.flows.operations.prefect_api import connected

    began, now = time.monotonic(), None
    with connected(home) as url, get_client(sync_client=True) as client, working("the run"):
        while time.monotonic() - began < _PATIENCE:
            time.sleep(0.25)
            now = _last_run(client, product)
            if now is None or (after is not None and now.state_id == after.state_id):
                continue
            if now.state in wanted:
                page = f"{str(url).removesuffix('/api')}/runs/flow-run/{now.run}"
                seconds = f"{time.monotonic() - began:.0f} s"
                out.print(
                    f"{now.state.capitalize()} after {seconds}: {page}", highlight=False, soft_wrap=True
                )
                return now
            if now.state in ("FAILED", "CRASHED", "CANCELLED"):
                break
    raise InputError(
        "the run did not come to its end" if now is None else f"the run is {now.state.lower()}",
        where=str(home.path / "server" / "logs"),
        hint="read the logs there, and run the demo again",
    )


def _last_run(client: SyncPrefectClient, product: str) -> Stop | None:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
    from prefect.client.schemas.sorting import FlowRunSort

    of_product = FlowRunFilter(tags=FlowRunFilterTags(all_=[f"product:{product}"]))
    runs = client.read_flow_runs(
        flow_run_filter=of_product, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=1
    )
    if not runs or runs[0].state is None:
        return None
    state = runs[0].state
    kind = "SUSPENDED" if state.name == "Suspended" else state.type.value
    return Stop(str(runs[0].id), kind, str(state.id))
