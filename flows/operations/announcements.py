"""What Prefect is told of a release: the tags of its run, and the events that people and programs wait for.

Outside a flow run nobody is told anything. Nothing here knows the data: products, periods, release ids,
and what stands in published folders and in the ledger.
"""

from __future__ import annotations

from flows.operations.events import emit
from flows.operations.names_in_prefect import of_product, run_tags


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


def announce_refused(product: str, period: str, line: str) -> None:
    """Tell that a run was refused.

    Parameters
    ----------
    line
        The message of the error that left the flow: of data that were refused it says only that.
    """
    emit("tabularium.release.refused", of_product(product), product=product, period=period, line=line)


def announce_suspended(product: str, period: str, line: str) -> None:
    """Tell that a run waits for a person; ``line`` names the command that lets it go on."""
    emit("tabularium.release.suspended", of_product(product), product=product, period=period, line=line)
