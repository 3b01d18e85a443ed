"""Limits on Prefect: it must not load results, start an open server, take settings from another user.

A state may name a result: a file, and how to read it. Who sets the state chooses both, and reading runs
code: a pickle runs what its author wrote, and Prefect's JSON calls any function that the record names. Flows
here keep no results, so a state that has one was forged.

Where no API is configured, Prefect starts a server on a port of the machine that asks nobody for a sign-in.

Prefect reads settings from files of the folder that a command is started in. They may name a file that sets
up logging, and that runs code.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any, Never

from tabularium.flows.operations.listeners import hold_port
from tabularium.mechanisms.errors import InputError

LOCAL_SETTINGS = (".env", "prefect.toml", "pyproject.toml")
"""Files of the current folder from which Prefect takes settings."""


def leave_closed_folder() -> None:
    """Go on in ``/`` where the current folder is closed to this user, as another person's home under sudo.

    Prefect and others look there for settings, and stop because they may not.
    """
    if not os.access(".", os.X_OK):
        sys.stderr.write("started in a folder that is closed to this user: files are looked for from / on\n")
        os.chdir("/")


def refuse_planted_settings() -> None:
    """See, before Prefect is imported, that nobody else wrote what it reads in the current folder.

    Raises
    ------
    InputError
        A file that speaks of Prefect belongs to another user than this one and root, or others may write it.
    """
    for path in map(Path, LOCAL_SETTINGS):
        try:
            about = path.stat()
            text = path.read_text(encoding="utf-8", errors="replace").lower()
        except OSError:  # there is none, or Prefect cannot read it either
            continue
        speaks = path.name == "prefect.toml" or "prefect" in text
        if speaks and (about.st_uid not in (0, os.geteuid()) or about.st_mode & stat.S_IWOTH):
            raise InputError(
                "others can write this file, from which Prefect would take settings that run code",
                where=str(path.absolute()),
                hint="start the command in a folder of yours, or give yourself sole ownership of the file",
            )


def limit_prefect() -> None:
    """Have Prefect in this process load no result, start no server, and speak to no other user's.

    This holds for the whole process: results of other flows in it cannot be loaded either.
    """
    from prefect.settings import get_current_settings

    _refuse_results()
    settings = get_current_settings()
    settings.server.ephemeral.enabled = (
        False  # a flow that is called without an API fails, and Prefect says so
    )
    hold_port(settings.api.url or "")  # a run may outlive its server, and goes on to send its sign-in there


def _refuse_results() -> None:
    from prefect._internal.result_records import ResultRecord
    from prefect.serializers import Serializer, UnknownSerializer
    from prefect.utilities.dispatch import get_registry_for_type

    serializers: dict[str, type[Any]] | None = get_registry_for_type(Serializer)
    assert serializers is not None  # noqa: S101 - Prefect's own are in it
    serializers.update(dict.fromkeys(serializers, UnknownSerializer))
    for name in ("deserialize", "deserialize_from_result_and_metadata"):
        getattr(ResultRecord, name)  # no other Prefect: it would load results by another name
        setattr(ResultRecord, name, staticmethod(_refuse))


def _refuse(*_: Any, **__: Any) -> Never:
    raise InputError(
        "the state of this run names a result to load, which no run here has; nothing was loaded",
        where="Prefect's API",
        hint="find out who may use the API and set the state, change its sign-in, then run again",
    )
