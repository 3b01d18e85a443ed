"""What processes leave behind when they end is buried, and what lives is left alone until the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys, time
from pathlib import Path
from flows.operations.supervisor import Part, keeping

end, seen = time.monotonic() + 60, set()
with keeping(print) as keeper:
    words = ["bash", "-c", "(sleep 0.5 &); exec sleep 300"]
    keeper.start(Part("sleeper", words, dict(os.environ), Path(sys.argv[1])))
    while time.monotonic() < end and (not seen or keeper._orphans()):
        seen.update(keeper._orphans())
        keeper.look_after()
        time.sleep(0.05)
    print(len(seen), keeper._orphans(), keeper.parts[0].ended())
"""


def test_an_orphan_that_has_ended_is_buried(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 [] None\n", done.stdout + done.stderr
