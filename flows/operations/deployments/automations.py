"""Automations of the server's, made again with the same name as often as one likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.schemas.automations import AutomationCore


def set_automation(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    """Make the automation of that name, or put this in its place; where there are several, one is left."""
    found = client.read_automations_by_name(wanted.name)
    if not found:
        client.create_automation(wanted)
    elif _said(found[0]) != _said(wanted):  # replacing it would forget what it has seen and waits for
        client.update_automation(found[0].id, wanted)
    for other in found[1:]:
        client.delete_automation(other.id)


def _said(automation: AutomationCore) -> dict[str, Any]:
    """Return what an automation is to do, without what the server adds to it."""
    told = automation.model_dump(mode="json", include={"name", "description", "enabled", "actions"})
    return {**told, "trigger": automation.trigger.model_dump(mode="json", exclude={"id"})}
