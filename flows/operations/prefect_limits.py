"""What Prefect must not do in a process that runs our flows: load results, start an open server.

A state may name a result: a file, and how to read it. Whoever sets the state chooses both, and reading runs
code: a pickle runs what its author wrote, and Prefect's JSON calls any function that the record names. Flows
here keep no results, so a state that has one was forged.

Where no API is configured, Prefect starts a server on a port of the machine that asks nobody for a sign-in.
"""

from __future__ import annotations

from typing import Any, Never

from mechanisms.errors import InputError


def refuse_results() -> None:
    """Have Prefect in this process load no result, and import nothing because a result names it."""
    from prefect._internal.result_records import ResultRecord
    from prefect.serializers import Serializer, UnknownSerializer
    from prefect.utilities.dispatch import get_registry_for_type

    serializers: dict[str, type[Any]] | None = get_registry_for_type(Serializer)
    assert serializers is not None  # noqa: S101 - Prefect's own are in it
    serializers.update(dict.fromkeys(serializers, UnknownSerializer))
    for name in ("deserialize", "deserialize_from_result_and_metadata"):
        getattr(ResultRecord, name)  # no other Prefect: it would load results by another name
        setattr(ResultRecord, name, staticmethod(_refuse))


def start_no_open_server() -> None:
    """Have a flow that is called without an API fail, and Prefect say so, instead of starting a server."""
    from prefect.settings import get_current_settings

    get_current_settings().server.ephemeral.enabled = False


def _refuse(*_: Any, **__: Any) -> Never:
    raise InputError(
        "the state of this run names a result to load, which no run here has; nothing was loaded",
        where="Prefect's API",
        mend="find out who may use the API and set the state, change its sign-in, then run again",
    )
