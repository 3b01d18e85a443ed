"""Record the digests of all that the specs of the net publish: ``python -m tests.net.record``.

Names of specs after the command record these alone. With ``--texts FOLDER`` what they publish is written there
too, a folder for each spec, so that it can be compared with that of another version of the program.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import tests.conftest  # noqa: F401 - settings of the tests, before anything else is imported
from tests.net.publishing import FAILED, differing, digests, published_texts, settled, write_texts
from tests.net.specs import SPECS

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = Path(__file__).with_name("digests.json")
Digests = dict[str, dict[str, str]]


def recorded() -> Digests:
    """Return the digests as they were recorded: spec -> output -> SHA-256."""
    found: Digests = json.loads(FILE.read_text())
    return found


def record(names: list[str], texts_to: Path | None = None) -> Mapping[str, list[str]]:
    """Publish specs and write their digests; return which outputs changed.

    Raises
    ------
    ValueError
        A command failed: that is nothing to hold on to.
    """
    before = recorded() if FILE.exists() else {}
    now = {name: found for name, found in before.items() if name in SPECS}
    changed = {}
    for name in names:
        began = time.perf_counter()
        with settled(), tempfile.TemporaryDirectory() as folder:
            texts = published_texts(SPECS[name], Path(folder) / name)
        if texts_to is not None:
            write_texts(texts, texts_to / name)
        failed = [output for output, text in texts.items() if text.startswith(FAILED)]
        if failed:
            raise ValueError(f"{name}: {failed}: {texts[failed[0]]}")
        now[name] = digests(texts)
        changed[name] = differing(before.get(name, {}), now[name])
        print(
            f"{name}: {time.perf_counter() - began:.1f} s, {len(changed[name])} of {len(texts)} changed",
            flush=True,
        )
    FILE.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    return changed


if __name__ == "__main__":
    words = argparse.ArgumentParser(
        prog="python -m tests.net.record", description="Record the net of digests."
    )
    words.add_argument("names", nargs="*", metavar="SPEC", help="record these alone")
    words.add_argument("--texts", type=Path, metavar="FOLDER", help="write there what is published")
    given = words.parse_args()
    if unknown := sorted(set(given.names) - SPECS.keys()):
        words.error(f"there is no spec {unknown[0]}; known are {', '.join(SPECS)}")
    for spec, outputs in record(given.names or list(SPECS), given.texts).items():
        for output in outputs:
            print(f"changed: {spec}: {output}")
