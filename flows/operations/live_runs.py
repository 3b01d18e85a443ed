"""Which runs of a product wait, run or sleep somewhere: as Prefect knows them, by what they are to read."""

from __future__ import annotations

from flows.operations.names_in_prefect import WORK_POOL

_MOST = 200


def live_sources(product: str) -> set[str]:
    """Return the sources of the runs of a product's deployment that have not ended.

    Raises
    ------
    Exception
        Whatever Prefect's client raises where the API does not answer.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        DeploymentFilter,
        DeploymentFilterName,
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        WorkPoolFilter,
        WorkPoolFilterName,
    )
    from prefect.client.schemas.objects import StateType

    ended = {StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED, StateType.CRASHED}
    live = [state for state in StateType if state not in ended]
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=live))),
            deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[product])),
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL])),
            limit=_MOST,
        )
    return {str(run.parameters.get("source")) for run in runs}
