"""What processes that tests start do otherwise: they judge suites in a few lines, and halt where a test says.

Python imports this at its start, where this folder is on PYTHONPATH. With ``TABULARIUM_TEST_SUITES=plain`` suites
are judged by ``tests/plain_suites.py``: to import Great Expectations is half the work of a small release.

For tests that kill, a process of a flow halts where a stage begins, once: ``TABULARIUM_TEST_HALTS`` names a folder; a
file ``PRODUCT`` in it holds the name of the stage. It becomes ``PRODUCT.halted``, with the process's id inside,
and the process goes on when that is removed. With ``TABULARIUM_TEST_HEARTBEATS=often`` it sends heartbeats every
two seconds, where Prefect allows thirty, half a minute of silence is enough to be taken for dead, and that is
looked for every three seconds.
With ``PRODUCT.raises``, whose first line is the stage, the stage raises as libraries do: the other lines are
its error's text. The process whose number stands in the file ``forks`` is asked to stop (SIGTERM) in the middle of
its next fork, where Python swallows what the handler raises.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def _stop_at_stages(halts: Path) -> None:
    from tabularium.tasks.runtime import stage as stages
    from tabularium.tasks.runtime.run import Run

    guarded = stages.Stage._guarded

    def halting(self: Any, *args: Any, **kwargs: Any) -> Any:
        for argument in args:
            if isinstance(argument, Run):
                wanted = halts / argument.loaded.spec.product
                raises = wanted.with_suffix(".raises")
                if raises.exists() and raises.read_text().partition("\n")[0] == self.name:
                    self = stages.Stage(self.name, _raising(raises.read_text()))
                if wanted.exists() and wanted.read_text() == self.name:
                    wanted.write_text(str(os.getpid()))
                    halted = wanted.rename(wanted.with_suffix(".halted"))
                    while halted.exists():
                        time.sleep(0.05)
        return guarded(self, *args, **kwargs)

    stages.Stage._guarded = halting  # type: ignore[method-assign]


def _raising(text: str) -> Any:
    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError(text)

    return fails


def _ask_to_stop_in_a_fork(asked: Path) -> None:
    def ask() -> None:
        if asked.exists() and asked.read_text() == str(os.getpid()):
            asked.unlink()
            signal.raise_signal(signal.SIGTERM)

    os.register_at_fork(after_in_parent=ask)


def _send_heartbeats_often() -> None:
    from prefect import flow_engine

    flow_engine.MINIMUM_HEARTBEAT_INTERVAL = 2
    flow_engine.BaseFlowRunEngine.heartbeat_seconds = 2  # type: ignore[assignment,method-assign]


def _notice_silence_soon() -> None:
    from datetime import timedelta

    from tabularium.flows.operations import watcher

    watcher.SILENCE = timedelta(seconds=30)
    watcher._EVERY_SECONDS = 3.0


class _WhenImported:
    """Does something to a module as soon as it is imported."""

    def __init__(self, name: str, work: Any) -> None:
        self.name, self.work = name, work

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.work()

        loader.exec_module = exec_module
        return spec


def _judge_plainly() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("plain_suites", Path(__file__).parents[3] / "plain_suites.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.judge_here(plainly=True)


if os.environ.get("TABULARIUM_TEST_SUITES") == "plain":
    sys.meta_path.insert(0, _WhenImported("tabularium.validations.suites.expectations", _judge_plainly))
if halts := os.environ.get("TABULARIUM_TEST_HALTS"):
    sys.meta_path.insert(
        0, _WhenImported("tabularium.tasks.runtime.stage", lambda: _stop_at_stages(Path(halts)))
    )
    _ask_to_stop_in_a_fork(Path(halts) / "forks")
    if os.environ.get("TABULARIUM_TEST_HEARTBEATS") == "often":
        sys.meta_path.insert(0, _WhenImported("prefect.flow_engine", _send_heartbeats_often))
        sys.meta_path.insert(0, _WhenImported("tabularium.flows.operations.watcher", _notice_silence_soon))
