"""A small release whose table is cut into slabs, as if it were too large to be held at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tabularium.tasks.runtime.home import Home
from tabularium.validations.release_spec.checks import table_checks as large_tables
from tests.flows.release.scene import AREAS, let_sign, write_scene

HELD = 20  # of the 42 measured cells; the places alone have 24, their provinces 12
SLAB = 6  # the cells of one place
PARTS = 6  # nation, provinces, and four places each by itself


@contextmanager
def small_memory() -> Iterator[None]:
    """Hold no more than `HELD` cells at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_tables, "HELD", HELD)
        patch.setattr(large_tables, "SLAB", SLAB)
        yield


def write_slab_scene(folder: Path, **options: str) -> tuple[Path, Home]:
    """Write the small release with its larger table alone, and one more place; return the spec and the home."""
    spec, home = write_scene(folder, **options)
    (folder / "areas.csv").write_text(AREAS + "B2,Beta two,B\n")
    head, table, rest = spec.read_text().split("  - name: ", 2)
    tail = rest.split("rules:", 1)[1]
    spec.write_text(f"{head}  - name: {table}rules:{tail}".replace('share: "2/3"', 'share: "1"'))
    let_sign(home)
    return spec, home
