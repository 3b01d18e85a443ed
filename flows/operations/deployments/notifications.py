"""Automations from a file: who is notified of what, by mail or a webhook."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import yaml

from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.blocks.core import Block
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.schemas.automations import AutomationCore

_BLOCK = "tabularium-notify"
_SEND = "send-notification"


@bare_errors
def load_automations(client: SyncPrefectClient, file: Path, address: str) -> list[str]:
    """Make or update every automation of a file; its notifications go to ``address``.

    Returns their names.

    Parameters
    ----------
    address
        ``https://…`` is called with a text as JSON; anything else is an address as Apprise writes it, such as
        ``mailtos://user:password@host?to=who``. It is kept by Prefect's server, encrypted, and nowhere else;
        empty for the one that is kept there.

    Raises
    ------
    InputError
        If the file or the address is not what it should be.
    """
    from prefect.events.schemas.automations import AutomationCore
    from pydantic import ValidationError

    wanted = []
    receiver: Any = None
    for written in _written(file):
        for action in written.get("actions", []):
            if action.get("type") == _SEND:
                receiver = receiver or _kept(client, address)
                action["block_document_id"] = receiver
        try:
            wanted.append(AutomationCore.model_validate(written))
        except ValidationError as error:
            where = " > ".join(str(part) for part in error.errors()[0]["loc"])
            raise InputError(
                f"an automation is not what Prefect takes, at {where}",
                where=f"{file.name}, {written.get('name')}",
                hint="compare it with deploy/automations.yaml",
            ) from None
    for automation in wanted:
        set_automation(client, automation)
    return [automation.name for automation in wanted]


@bare_errors
def _written(file: Path) -> list[dict[str, Any]]:
    try:
        automations: list[dict[str, Any]] = yaml.safe_load(file.read_text())["automations"]
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        what = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "holds no automations"
        raise InputError(what, where=str(file), hint="give a file such as deploy/automations.yaml") from None
    return automations


def _kept(client: SyncPrefectClient, address: str) -> UUID:
    """Return the id of the block that sends messages, with this address or, without one, as it is."""
    if not address:
        blocks = [document for document in client.read_block_documents() if document.name == _BLOCK]
        if blocks:
            return blocks[0].id
    return cast("UUID", _receiver(address).save(_BLOCK, overwrite=True))


def _receiver(address: str) -> Block:
    """Return the block that Prefect's server sends messages with."""
    from apprise import Apprise
    from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
    from pydantic import SecretStr

    parts = urlsplit(address)
    if parts.scheme in {"http", "https"} and parts.netloc:
        text = {"subject": "{{subject}}", "text": "{{subject}}\n{{body}}"}
        return CustomWebhookNotificationBlock(
            name=_BLOCK, url=address, json_data=text, headers=None, cookies=None
        )
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it quotes addresses, in which passwords stand
    if parts.scheme not in {"", "http", "https"} and Apprise().add(address):
        # Of Prefect's blocks the one that hands every address that is not Slack's to Apprise as it is.
        return SlackWebhook(url=SecretStr(address))
    raise InputError(
        "is no address that messages go to",
        where="--to",
        hint="write https://…, or mailtos://user:password@host?to=name@host",
    )


def set_automation(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    """Make the automation of that name, or put this in its place; where there are several, one is left."""
    automations = client.read_automations_by_name(wanted.name)
    if not automations:
        client.create_automation(wanted)
    elif _definition(automations[0]) != _definition(
        wanted
    ):  # replacing it would forget what it has seen and waits for
        client.update_automation(automations[0].id, wanted)
    for other in automations[1:]:
        client.delete_automation(other.id)


def _definition(automation: AutomationCore) -> dict[str, Any]:
    """Return what an automation is to do, without what the server adds to it."""
    document = automation.model_dump(mode="json", include={"name", "description", "enabled", "actions"})
    return {**document, "trigger": automation.trigger.model_dump(mode="json", exclude={"id"})}
