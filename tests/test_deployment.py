"""What Prefect will load: `prefect deploy` succeeds even for a flow that cannot be imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOYMENTS = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_an_entrypoint_loads_and_takes_its_parameters(deployment: dict[str, Any]) -> None:
    from prefect.flows import load_flow_from_entrypoint

    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    assert flow.name == "tabularium-release"
    assert set(deployment["parameters"]) <= set(flow.parameters.properties)
    assert not flow.persist_result
    assert (ROOT / deployment["parameters"]["spec"]).exists()
