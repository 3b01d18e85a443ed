"""What Prefect is told of a release: the tags of its run, and the events that people and programs wait for.

Outside a flow run nobody is told anything. Nothing here knows the data: products, periods, release ids,
and what stands in published folders and in the ledger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tabularium.flows.operations.events import Event, emit
from tabularium.flows.operations.names_in_prefect import of_account, of_product, run_tags
from tabularium.flows.operations.reporting.budget_warnings import left_and_cap, threshold
from tabularium.tasks.runtime.home import Home


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Let what the block tells Prefect fail: a release that is published is so, whoever has heard of it."""
    from prefect.logging import get_run_logger

    try:
        yield
    except Exception as error:
        kind = type(error).__name__  # its text may quote what was to be told
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
    """Tell if less is left of an account than its threshold (:mod:`.budget_warnings`)."""
    left, cap = left_and_cap(home, account)
    share = threshold(home, account)
    if left < share * cap:
        below = f"{float(100 * share):g} %"
        told = {"left": str(left), "cap": str(cap), "below": below}
        emit("tabularium.budget.low", of_account(account), account=account, **told)


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
