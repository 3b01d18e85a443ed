"""A run that is cancelled in a worker's process while it draws keeps its charge, and the next one publishes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import capture_sigterm

import tabularium.tasks.measure
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.progress import stopping
from tests.flows.release.scene import publish, states, write_scene

RULES = '[{rule: row_count, min: 500, noisy: {share: "1/10"}}]'


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hear signals as a worker's process does: Prefect's handler stays, and the interpreter notes them."""
    for name, value in {"exception": None, "listening": False, "_noted": None}.items():
        monkeypatch.setattr(stopping, name, value)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Prefect hands the signal on in the end
    try:
        stopping.listen_again()
        yield
    finally:
        os.close(signal.set_wakeup_fd(-1))
        if stopping._noted is not None:
            os.close(stopping._noted)
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(("drawn", "rules"), [("draw_job", "[]"), ("draw_tally", RULES)])
def test_the_charge_stays_in_drawing_and_the_next_run_publishes(
    drawn: str, rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path, rules=rules)
    draw = getattr(tabularium.tasks.measure, drawn)

    def terminated(*arguments: object) -> object:
        draw(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("Prefect's handler raises before this line")

    with monkeypatch.context() as patch:
        patch.setattr(tabularium.tasks.measure, drawn, terminated)
        with pytest.raises(TerminationSignal), capture_sigterm():
            publish(spec, home)
    assert states(home) == ["drawing"]
    monkeypatch.setattr(stopping, "exception", None)
    assert publish(spec, home).status == "published"
    with Ledger.connect(home.ledger_url) as books:
        assert books.account("people").spent == 1
        assert {charge.state for charge in books.charges("people")} == {"published"}
