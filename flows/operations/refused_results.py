"""The results of runs, which this program never loads.

A state may name a result: a file, and how to read it. Whoever sets the state chooses both, and reading runs
code: a pickle runs what its author wrote, and Prefect's JSON calls any function that the record names. Flows
here keep no results, so a state that has one was forged.
"""

from __future__ import annotations

from typing import Any, Never

from mechanisms.errors import InputError


def refuse_results() -> None:
    """Have Prefect in this process load no result, and import nothing because a result names it."""
    from prefect.results import ResultRecord
    from prefect.serializers import Serializer, UnknownSerializer
    from prefect.utilities.dispatch import get_registry_for_type

    serializers = get_registry_for_type(Serializer)
    assert serializers is not None  # noqa: S101 - Prefect's own are in it
    serializers.update(dict.fromkeys(serializers, UnknownSerializer))
    for name in ("deserialize", "deserialize_from_result_and_metadata"):
        getattr(ResultRecord, name)  # no other Prefect: it would load results by another name
        setattr(ResultRecord, name, staticmethod(_refuse))


def _refuse(*_: Any, **__: Any) -> Never:
    raise InputError(
        "the state of this run names a result to load, which no run here has; nothing was loaded",
        where="Prefect's API",
        mend="find out who may use the API and set the state, change its sign-in, then run again",
    )
