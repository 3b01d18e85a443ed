"""Events: what a run tells Prefect's automations, so that a person or a program hears of it.

An event names a product, a period and a release; it never says why data were refused, what a table holds, or
anything else that a run learned from the data.
"""

from __future__ import annotations

from typing import Literal

Event = Literal[
    "tabularium.data.arrived",
    "tabularium.data.overdue",
    "tabularium.drop.quarantined",
    "tabularium.release.published",
    "tabularium.release.refused",
    "tabularium.release.suspended",
    "tabularium.release.overdue",
    "tabularium.budget.low",
    "tabularium.upkeep.failed",
]


def emit(event: Event, resource: str, **about: str) -> None:
    """Tell the Prefect API of this process; without one nobody is told.

    Parameters
    ----------
    resource
        What the event is about: ``tabularium.product.NAME``, ``tabularium.inbox.PRODUCT`` or
        ``tabularium.account.NAME``.
    about
        Its payload, such as ``period`` and ``release_id``.
    """
    from prefect.events import emit_event

    emit_event(event=event, resource={"prefect.resource.id": resource}, payload=about)


def emit_now(event: Event, resource: str, **about: str) -> None:
    """Tell the Prefect API of this process, and return when it has heard; otherwise as ``emit``.

    Raises
    ------
    Exception
        Whatever Prefect's client raises where the API does not answer. ``emit`` keeps such an event for
        later in this process, and loses it in the end.
    """
    from prefect.client.orchestration import get_client
    from prefect.events import Event as Told
    from prefect.types._datetime import now

    named = {"prefect.resource.id": resource}
    told = Told.model_validate({"event": event, "occurred": now("UTC"), "resource": named, "payload": about})
    with get_client(sync_client=True) as client:
        client.request("POST", "/events", json=[told.model_dump(mode="json")])
