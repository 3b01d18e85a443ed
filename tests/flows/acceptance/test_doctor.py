"""Each fault has its line; the doctor's own environment does not matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debian import Unavailable
from tests.flows.acceptance.doctor import FAULTS, scene

pytestmark = [pytest.mark.audit, pytest.mark.slow, pytest.mark.xdist_group("acceptance")]


def test_each_fault_has_its_line(tmp_path: Path) -> None:
    missed = {}
    try:
        with scene(tmp_path) as here:
            for fault in FAULTS:
                with fault.planted(here):
                    lines = here.doctor(*fault.words)
                if not any(line.startswith(fault.line) for line in lines):
                    missed[fault.named] = lines
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert missed == {}
