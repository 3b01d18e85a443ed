"""A forged state of a run, whoever sets it, has no code run and passes for no release."""

from __future__ import annotations

import base64
import json
import lzma
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabularium.flows.operations.prefect_api import OwnServer, settings_of
from tabularium.mechanisms.errors import InputError
from tests.flows.release.scene import states, write_scene

pytestmark = pytest.mark.xdist_group("engine")


class Evil:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def forgeries(folder: Path) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Return serializers that a record may name, each with the bytes that leave a trace when they are read."""
    evil = pickle.dumps(Evil(folder / "trace"))
    called = {"object_decoder": "subprocess.check_call"}
    return {
        "pickle": ({"type": "pickle"}, base64.encodebytes(evil)),
        "pickle's own library": ({"type": "pickle", "picklelib": "pickle"}, base64.encodebytes(evil)),
        "compressed": (
            {"type": "compressed/pickle", "serializer": {"type": "pickle"}},
            base64.encodebytes(lzma.compress(base64.encodebytes(evil))),
        ),
        # A function is called with an object of the file, whose keys are the words of a command.
        "json": ({"type": "json", **called}, json.dumps({"mkdir": 0, str(folder / "trace"): 0}).encode()),
    }


def forged(folder: Path, name: str, kind: str, *, in_record: bool) -> dict[str, Any]:
    """Write the file of a result, and return the state that names it."""
    serializer, content = forgeries(folder)[name]
    file = folder / "result"
    record = {"metadata": {"storage_key": str(file), "serializer": serializer}, "result": content.decode()}
    file.write_bytes(json.dumps(record).encode() if in_record else content)
    data = {"storage_key": str(file), "serializer": serializer, "prefect_version": "3.8.8"}
    return {"type": kind, "name": kind.capitalize(), "data": data}


@pytest.mark.parametrize("in_record", [True, False], ids=["record", "bytes"])
@pytest.mark.parametrize("kind", ["COMPLETED", "FAILED"])
@pytest.mark.parametrize("name", list(forgeries(Path())))
def test_no_result_is_loaded(name: str, kind: str, in_record: bool, tmp_path: Path) -> None:
    import prefect.states
    from prefect.client.schemas.objects import State

    import tabularium.flows.release  # noqa: F401 - as every process does that runs a flow

    prefect.states.RESULT_READ_MAXIMUM_ATTEMPTS = 1
    os.environ["PREFECT_LOCAL_STORAGE_PATH"] = str(tmp_path)
    state: State[Any] = State.model_validate(forged(tmp_path, name, kind, in_record=in_record))
    with pytest.raises(InputError, match="nothing was loaded"):
        state.result()
    assert not (tmp_path / "trace").exists()


def test_nothing_is_imported_because_a_state_names_it() -> None:
    program = (
        "import tabularium.flows.upkeep, sys; from prefect.client.schemas.objects import State;"
        "State.model_validate({'type': 'COMPLETED', 'data': {'storage_key': 'x',"
        " 'serializer': {'type': 'pickle', 'picklelib': 'this'}}}); print('this' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.fixture(scope="module")
def server(prefect_server: OwnServer) -> Iterator[OwnServer]:
    with settings_of(prefect_server.url, prefect_server.sign_in):
        yield prefect_server


@pytest.mark.parametrize("name", ["pickle", "json"])
def test_a_pending_run_whose_state_is_forged_at_the_server(
    name: str, server: OwnServer, tmp_path: Path
) -> None:
    del server
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Pending

    from tabularium.flows.release import release

    spec, home = write_scene(tmp_path)
    parameters = {"spec": str(spec), "home": str(home.path)}
    state = forged(tmp_path, name, "COMPLETED", in_record=True)
    with get_client(sync_client=True) as client:
        run = client.create_flow_run(release, parameters=parameters, state=Pending())
        path = f"/flow_runs/{run.id}/set_state"
        client._client.post(path, json={"state": state, "force": True}).raise_for_status()
    with pytest.raises(InputError, match="nothing was loaded"):
        run_flow(release, flow_run=run, parameters=parameters)
    assert not (tmp_path / "trace").exists()
    assert states(home) == []


def test_a_flow_that_is_called_without_an_api_starts_no_server(tmp_path: Path) -> None:
    program = "from tabularium.flows.upkeep import verify_ledger; verify_ledger()"
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path), "TABULARIUM_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "No Prefect API URL provided" in done.stderr
