"""Releases verified by the core alone: ``python -m tests.net.core_alone REPLICATES``.

It is asked for folders, a line each, and answers each with its findings as JSON. What no requirement of the core
installs cannot be imported here, as if it were not there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def core() -> set[str]:
    """The distributions that are installed with the core: its requirements, and theirs."""
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    open_ = [(Requirement(line), "") for line in project["dependencies"]]
    seen: set[tuple[str, str]] = set()
    while open_:
        asked, by = open_.pop()
        if asked.marker is not None and not asked.marker.evaluate({"extra": by}):
            continue
        for extra in ("", *asked.extras):
            if (name := (canonical(asked.name), extra)) not in seen:
                seen.add(name)
                open_ += [(Requirement(line), extra) for line in metadata.requires(asked.name) or ()]
    return {name for name, _ in seen}


class Blocked:
    """Finds nothing of the libraries that only an extra installs."""

    def __init__(self, libraries: set[str]) -> None:
        self.libraries = libraries

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] in self.libraries:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def beyond_core() -> set[str]:
    """The packages that belong to no distribution of the core."""
    ours = core()
    found: Mapping[str, list[str]] = metadata.packages_distributions()
    others = {name for name, by in found.items() if not ours & {canonical(each) for each in by}}
    return others - {"tabularium", "tests", "benchmarks", *sys.stdlib_module_names}


class Core:
    """A process in which the core is alone."""

    def __init__(self, replicates: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.net.core_alone", str(replicates)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def findings(self, release: Path) -> list[dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{release}\n")
        self._process.stdin.flush()
        found: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return found


def main() -> None:
    sys.meta_path.insert(0, Blocked(beyond_core()))  # type: ignore[arg-type]
    import tabularium
    from tabularium.tasks.margins import margins

    margins.replicates = lambda _cells: int(sys.argv[1])
    for release in _lines():
        found = tabularium.verify(release).findings
        said = [{**each.as_dict(), "not_installed": each.not_installed} for each in found]
        print(json.dumps(said), flush=True)


def _lines() -> Iterator[str]:
    while line := sys.stdin.readline():
        yield line.strip()


if __name__ == "__main__":
    main()
