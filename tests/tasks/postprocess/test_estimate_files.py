"""Estimates in the workspace: what is written is read, table by table and block by block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from mechanisms.inference import Estimate
from tasks.postprocess.estimate_files import Block, EstimatesHandle, write
from tasks.runtime.run import Request, Run


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


def test_a_table_in_several_blocks_reads_as_one(tmp_path: Path) -> None:
    run = Run(Request("", None, None, str(tmp_path)), str(tmp_path))
    whole = Estimate(np.arange(10.0).reshape(5, 2), np.arange(1.0, 6.0)[:, None])
    parts = {
        f"part{start}": Estimate(whole.values[start:stop], whole.variances[start:stop])
        for start, stop in ((0, 2), (2, 5))
    }
    blocks = [
        replace(block, table="table", nodes=nodes)
        for block, nodes in zip(write(run, "consistency", parts).blocks, ((0, 2), (2, 5)), strict=True)
    ]
    handle = EstimatesHandle((*blocks, Block("other", (0, 1), "nowhere")))
    read = handle.read("table")
    assert (read.values == whole.values).all()
    assert (read.variances == whole.variances).all()
    assert [(table, len(found)) for table, found in handle.by_table()] == [("table", 2), ("other", 1)]
