"""Let the disk fill up under a release, at every size; then give it space and run it again.

    python -m tests.ledger.measurement.full_disk_driver FOLDER

A limit on the size of any file stands in for the disk: a write past it fails as a full disk does.
"""

from __future__ import annotations

import resource
import shutil
import sys
from pathlib import Path

from tabularium.ledger import LedgerError
from tests.ledger.measurement.boundaries import PARTS, check, draws, release, stored

KILOBYTE = 1024


def limit(size: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def main(folder: Path) -> None:
    refused, size = 0, 0
    while True:
        place = folder / str(size)
        place.mkdir()
        limit(size * KILOBYTE)
        try:
            release(place)
        except LedgerError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            break
        finally:
            limit(resource.RLIM_INFINITY)
        before, drawn = stored(place), draws(place)
        check(place, release(place))
        assert draws(place) == {part: drawn[part] + (part not in before) for part in PARTS}
        shutil.rmtree(place)
        size += 7
    print(f"refused {refused}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
