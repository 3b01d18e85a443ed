"""Prefect's server on a socket that it inherits, which listens already.

    python -m tabularium.flows.operations.prefect_server HANDLE

``prefect server start`` can only open a port itself, seconds after its command line has shown it to every
user of the machine.
"""

from __future__ import annotations

import socket
import sys


def main() -> None:
    """Serve until asked to stop."""
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    settings = get_current_settings().server
    config = uvicorn.Config(
        create_app(final=True),
        timeout_keep_alive=settings.api.keepalive_timeout,
        log_level=settings.logging_level.lower(),
    )
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
