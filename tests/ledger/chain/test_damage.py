"""A long export, damaged anywhere: full size of what ``test_export`` tries on a short one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench_ledger import damage


@pytest.mark.audit
def test_a_thousand_damages_of_a_long_export_are_seen(tmp_path: Path) -> None:
    damage(tmp_path, entries=20_000, times=1000)
