"""Run releases that succeed and releases that fail in every way, in one process with a real Prefect engine.

    python -m tests.flows.release.leak_driver FOLDER

The microdata hold sentinels. The test that starts this program then searches everything it left behind.
Failures are brought about in the real code path: by bad input where input can do it, and otherwise by a
library call that raises with a sentinel in its text, as libraries do.
"""

from __future__ import annotations

import errno
import gzip
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabularium.flows.operations.prefect_api import own_server, settings_of
from tabularium.flows.release import release
from tabularium.mechanisms.errors import TabulariumError
from tabularium.mechanisms.histograms.cellwise import Identity
from tabularium.validations.suites.gx_engine import library
from tests.flows.release.scene import write_scene
from tests.sizes import full

NAME = "Zebulon-Quartermain"  # in a column that the spec does not name
INVALID = "Xanthippe77"  # a value outside a domain
COUNT = 43117  # records in one cell
COMMON = [("A1", "30", "1")] * COUNT

Scenario = tuple[Path, Any]


@contextmanager
def patched(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


def scene(folder: Path, **options: Any) -> Path:
    """A scene whose microdata carry the sentinels; budgets so small that noise hides any count."""
    options.setdefault("budget", "1/1000")
    spec, _ = write_scene(folder, rows=60, **options)
    data = folder / "people.csv"
    lines = data.read_text().splitlines()
    named = [f"{line},{'name' if i == 0 else NAME}" for i, line in enumerate(lines)]
    data.write_text("\n".join([*named, *(f"A1,30,1,{NAME}" for _ in range(COUNT))]) + "\n")
    return spec


def attempt(name: str, spec: Path, home: Path) -> None:
    try:
        outcome = release(str(spec), None, None, str(home))
    except TabulariumError as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"{name}: {outcome['status']}", flush=True)


def after_drawing(self: Any, counts: Any, channel: Any) -> Any:
    if not counts.any():
        return really_draw(self, counts, channel)  # the dry run on empty tables
    channel.laplace(counts, channel.remaining, purpose="cells")
    raise ValueError(f"{NAME} has {counts.max()} records: {counts}")


def says_too_much(*_: Any, **__: Any) -> Any:
    raise ValueError(f"could not convert {INVALID!r} near {NAME}, {COUNT} times")


def no_space(source: Any, target: Any, **_: Any) -> Any:
    if str(source).endswith(".partial"):
        raise OSError(errno.ENOSPC, "No space left on device", f"/x/{NAME}")
    return really_rename(source, target)


really_rename = os.rename
really_draw = Identity.draw


def main(root: Path) -> None:
    import tabularium.tasks.count.count

    def fresh(name: str, **options: Any) -> tuple[Path, Path]:
        spec = scene(root / "input" / name, **options)
        (root / "input" / name / "home").rename(root / name)
        text = spec.read_text().replace("folder: releases", f"folder: {root / name / 'releases'}")
        spec.write_text(text)
        return spec, root / name

    attempt("success", *fresh("success"))
    library()  # the first run had a process for it; the others share this one, which says more
    attempt("rule stops", *fresh("rule", rules="[{rule: row_count, max: 10}]"))
    attempt("invalid values", *fresh("invalid", extra=[("A1", "30", INVALID)] * 5))

    spec, home = fresh("bytes")
    with (spec.parent / "people.csv").open("ab") as file:
        file.write(b"A1,30,\xff\xfe" + NAME.encode() + b"\n")
    attempt("not UTF-8", spec, home)

    spec, home = fresh("mechanism")
    with patched(Identity, "draw", after_drawing):
        attempt("mechanism raises after it drew", spec, home)
    spec, home = fresh("engine")
    with patched(tabularium.tasks.count.count, "count_tables", says_too_much):
        attempt("engine raises", spec, home)
    spec, home = fresh("disk")
    with patched(os, "rename", no_space):
        attempt("disk full", spec, home)
    if full():
        more(fresh)


def more(fresh: Callable[..., tuple[Path, Path]]) -> None:
    """Do what differs less from what was done already."""
    attempt("warned", *fresh("warned", rules="[{rule: row_count, max: 10, severity: warn}]"))
    attempt("no budget", *fresh("budget", cap="1/10000"))
    attempt("column of another type", *fresh("type", extra=[("A1", INVALID, "1")] * 5))

    spec, home = fresh("ragged")
    with (spec.parent / "people.csv").open("a") as file:
        file.write(f"A1,30,1,{NAME},{INVALID},{INVALID}\n")
    attempt("ragged row", spec, home)

    spec, home = fresh("gzip")
    data = spec.parent / "people.csv"
    (spec.parent / "people.csv.gz").write_bytes(gzip.compress(data.read_bytes())[:-40])
    spec.write_text(spec.read_text().replace("people.csv", "people.csv.gz"))
    attempt("truncated gzip", spec, home)


if __name__ == "__main__":
    with own_server() as server, settings_of(server.url, server.sign_in):
        main(Path(sys.argv[1]))
