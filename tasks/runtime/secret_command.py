"""The agency secret from a key store: what the command in ``TABULARIUM_SECRET_COMMAND`` prints.

The command is run without a shell, once in a process; its output is the secret, as 32 bytes or as 64
hexadecimal digits. Whatever it says on standard error is dropped: key stores quote there what they hold.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import lru_cache

from tabularium.mechanisms.errors import InputError

VARIABLE = "TABULARIUM_SECRET_COMMAND"
SECRET_BYTES = 32
_SECONDS = 30
_HEX = re.compile(rb"\s*([0-9A-Fa-f]{64})\s*")


def secret_command() -> str | None:
    """Return the command that prints the secret, if one is named."""
    return os.environ.get(VARIABLE) or None


@lru_cache(maxsize=4)
def secret_of(command: str) -> bytes:
    """Return the secret that a command prints.

    Raises
    ------
    InputError
        If it cannot be run, fails, takes longer than half a minute, or prints something else.
    """
    failure = printed_by(command)
    if isinstance(failure, bytes):
        found = _HEX.fullmatch(failure)
        if found is not None:
            return bytes.fromhex(found[1].decode())
        if len(failure) == SECRET_BYTES:
            return failure
        failure = "printed something that is no secret"
    raise InputError(
        f"the command for the agency secret {failure}",
        where=VARIABLE,
        hint=f"let it print {SECRET_BYTES} bytes, or 64 hexadecimal digits, and exit with 0",
    )


def printed_by(command: str) -> bytes | str:
    """Return what a key store's command printed, or what is wrong with it."""
    try:
        words = shlex.split(command)
        done = subprocess.run(  # noqa: S603 - the operator's own command, and no shell
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {_SECONDS} seconds"
    except (OSError, ValueError, IndexError):
        return "cannot be run"
    return done.stdout if done.returncode == 0 else f"failed with exit code {done.returncode}"
