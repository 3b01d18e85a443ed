"""Reports of a release to Prefect: tags of its run, and events for people and programs that wait.

Outside a flow run nothing is reported. Nothing here knows the data: products, periods, release ids,
and what stands in published folders and in the ledger.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

from tabularium.flows.operations.names_in_prefect import of_account, of_product, run_tags
from tabularium.ledger import Ledger
from tabularium.ledger.durable_files import create, sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import bare_errors

# Events: what a run tells Prefect's automations, so that a person or a program hears of it.
#
# An event names a product, a period and a release; it never says why data were refused, what a table holds,
# or anything else that a run learned from the data.


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
    """Report to the Prefect API of this process, if there is one.

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
    from prefect.events import Event as PrefectEvent
    from prefect.types._datetime import now

    named = {"prefect.resource.id": resource}
    prefect_event = PrefectEvent.model_validate(
        {"event": event, "occurred": now("UTC"), "resource": named, "payload": about}
    )
    with get_client(sync_client=True) as client:
        client.request("POST", "/events", json=[prefect_event.model_dump(mode="json")])


# When to tell that an account runs low: a share of its cap, for each account, kept in the home.
#
# ``<home>/budget-warnings.json`` holds those that were set; 20 % is meant where none was.


_FILE = "budget-warnings.json"
_DEFAULT = Fraction(1, 5)
_PERCENT = re.compile(r"(\d{1,2}(\.\d{1,3})?)\s?%")


def threshold(home: Home, account: str) -> Fraction:
    """Return the share of an account's cap below which what is left is called low."""
    return Fraction(_all(home).get(account, _DEFAULT))


def set_threshold(home: Home, account: str, written: str) -> Fraction:
    """Set the threshold of an account; ``written`` is a percentage such as ``20%``.

    Raises
    ------
    InputError
        If it is not.
    """
    share = parse_threshold(written)
    path = home.path / _FILE
    aside = path.with_name(f".{_FILE}.new")
    create(aside, json.dumps({**_all(home), account: str(share)}, indent=1).encode())
    aside.rename(path)
    sync_folder(home.path)
    return share


def parse_threshold(written: str) -> Fraction:
    """Read a percentage.

    Raises
    ------
    InputError
        If it is none below a hundred.
    """
    match = _PERCENT.fullmatch(written.strip())
    if match is None:
        raise InputError("is no percentage below 100", where="--warn-below", hint="write for instance 20%")
    return Fraction(match[1]) / 100


def left_and_cap(home: Home, account: str) -> tuple[Fraction, Fraction]:
    """Return what is left of an account, and its cap."""
    with Ledger.connect(home.ledger_url) as ledger:
        return ledger.balance(account), ledger.account(account).terms.cap


@bare_errors
def _all(home: Home) -> dict[str, str]:
    try:
        thresholds: dict[str, str] = json.loads((home.path / _FILE).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise InputError(
            "cannot be read", where=str(home.path / _FILE), hint="remove it, and give --warn-below again"
        ) from None
    return thresholds


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Ignore failures of the block: failing to notify Prefect does not undo a publication."""
    from prefect.logging import get_run_logger

    try:
        yield
    except Exception as error:
        kind = type(error).__name__  # its text may quote what was to be reported
        get_run_logger().warning("Prefect did not receive everything about this run: %s", kind)


def tag_run(product: str, period: str) -> None:
    """Give the flow run that asks the tags of its product and period."""
    from prefect.client.orchestration import get_client
    from prefect.runtime import flow_run

    tags = sorted({*(flow_run.tags or ()), *run_tags(product, period)})
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, tags=tags)


def announce_published(product: str, period: str, release_id: str, folder: str) -> None:
    """Tell that a release was published; not of one that was published before."""
    emit(
        "tabularium.release.published",
        of_product(product),
        product=product,
        period=period,
        release_id=release_id,
        folder=folder,
    )


def announce_low_budget(home: Home, account: str) -> None:
    """Tell if less is left of an account than its threshold."""
    left, cap = left_and_cap(home, account)
    share = threshold(home, account)
    if left < share * cap:
        below = f"{float(100 * share):g} %"
        payload = {"left": str(left), "cap": str(cap), "below": below}
        emit("tabularium.budget.low", of_account(account), account=account, **payload)


def announce_refused(product: str, period: str, line: str) -> None:
    """Tell that a run was refused.

    Parameters
    ----------
    product, period
        Empty where the spec could not be read.
    line
        The message of the error that left the flow: of data that were refused it says only that.
    """
    _announce("tabularium.release.refused", product, period, line)


def announce_suspended(product: str, period: str, line: str) -> None:
    """Tell that a run waits for a person; ``line`` names the command that lets it go on."""
    _announce("tabularium.release.suspended", product, period, line)


def _announce(event: Event, product: str, period: str, line: str) -> None:
    from prefect.runtime import deployment

    resource = of_product(product or deployment.name or "unnamed")
    emit(event, resource, product=product, period=period, line=line)
