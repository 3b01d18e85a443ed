"""Waiting for Prefect and importing heavy libraries at the same time.

Without a server of its own a run starts Prefect's ephemeral one, a process that needs several seconds to
come up; Great Expectations and the engine take several seconds to import. Done one after the other that is
half of a small run. Nothing depends on this: whatever fails here is done, and told of, where it is needed.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from threading import Thread


@contextlib.contextmanager
def ephemeral_server_starting() -> Iterator[None]:
    """Have the ephemeral server come up while the block runs; wait for it at the end.

    Does nothing where an API URL is set or ephemeral servers are switched off.
    """
    starter: Thread | None = None
    with contextlib.suppress(Exception):
        from prefect.server.api.server import SubprocessASGIServer
        from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ALLOW_EPHEMERAL_MODE

        if not PREFECT_API_URL.value() and PREFECT_SERVER_ALLOW_EPHEMERAL_MODE.value():
            starter = Thread(target=_start, args=(SubprocessASGIServer(),), daemon=True)
            starter.start()
    try:
        yield
    finally:
        if starter is not None:
            starter.join()


def _start(server: object) -> None:
    # Ctrl-C goes to every process of the terminal. The server must outlive it, or Prefect's client waits a
    # minute for a server that is gone; it inherits this thread's mask, and is ended with SIGTERM.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A start that fails leaves the server marked as not running; Prefect then starts it again and reports.
    with contextlib.suppress(Exception):
        server.start()  # type: ignore[attr-defined]


def import_heavy_libraries() -> None:
    """Import now, while something else is waited for, what a run imports anyway."""
    import flows.release  # noqa: F401
    from validations.suites import expectations as suites

    with contextlib.suppress(Exception):
        suites.library()
