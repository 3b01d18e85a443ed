"""Names in Prefect that the commands, the flow and the docs share."""

from __future__ import annotations

from collections.abc import Iterable

from tabularium.mechanisms.errors import InputError

FLOW = "tabularium-release"
ENTRYPOINT = "tabularium.flows.release.release"
WORK_POOL = "tabularium"
WORK_POOL_TYPE = "process"
TAG = "tabularium"
#: Seconds between two heartbeats of a run, the fewest that Prefect allows.
HEARTBEAT_SECONDS = 30
#: What every run gets, on whosever worker: by its heartbeats a run that died is noticed.
JOB_VARIABLES = {"env": {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_SECONDS)}}


def deployment_tags(product: str) -> list[str]:
    """Return the tags of a product's deployment, which every run of it has too."""
    return [TAG, f"product:{product}"]


def own_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags that somebody adds.

    Raises
    ------
    InputError
        If one is empty, or says what Tabularium's own say.
    """
    for tag in tags:
        if not tag.strip() or tag == TAG or tag.startswith(("product:", "period:")):
            raise InputError(
                "is a tag that Tabularium sets itself" if tag.strip() else "is empty",
                where=f"--tag {tag}",
                hint="write a tag of your own, such as health",
            )
    return tuple(dict.fromkeys(tags))


def run_tags(product: str, period: str) -> list[str]:
    """Return the tags of a run, by which it is found in the UI."""
    return [*deployment_tags(product), f"period:{period}"]


def of_product(product: str) -> str:
    """Return the resource of events about a product."""
    return f"tabularium.product.{product}"


def of_inbox(product: str) -> str:
    """Return the resource of events about a product's inbox."""
    return f"tabularium.inbox.{product}"


def of_account(account: str) -> str:
    """Return the resource of events about an account."""
    return f"tabularium.account.{account}"
