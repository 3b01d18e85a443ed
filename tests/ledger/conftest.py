from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import Ledger
from tests.ledger.scene import census, open_books


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Ledger]:
    with open_books(tmp_path) as ledger:
        census(ledger)
        yield ledger
