"""Estimates in the workspace: what is written is read, table by table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.estimate_files import write
from tabularium.tasks.runtime.run import Request, Run


def test_what_is_written_is_read_and_steps_hand_their_notes_on(tmp_path: Path) -> None:
    run = Run(Request("", None, None, str(tmp_path)), str(tmp_path))
    one = Estimate(np.arange(6.0).reshape(3, 2), np.array([[1.0], [2.0], [np.inf]]))
    two = Estimate(np.ones((1, 1)), np.ones((1, 1)))
    first = write(run, "consistency", {"one": one, "two": two}, notes={"rounds": 3})
    second = write(run, "rounding", {"one": two, "two": two}, after=first)
    read = first.read_all()
    assert list(read) == ["one", "two"]
    assert (read["one"].values == one.values).all()
    assert (read["one"].variances == one.variances).all()
    assert (second.note("consistency"), second.note("rounding"), second.note("else")) == (
        {"rounds": 3},
        {},
        {},
    )
    assert second.read("one").values.shape == (1, 1)
