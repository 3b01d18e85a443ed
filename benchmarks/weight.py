"""The weight of the source: modules, statements, docstrings, templates, by folder and revision.

A statement is one of Python's syntax tree, docstrings apart, so that a longer line weighs no less.

    python -m benchmarks.weight             # as it stands
    python -m benchmarks.weight v1 v2       # of two revisions, side by side
    python -m benchmarks.weight --lonely    # modules that one neighbour alone imports, the small ones last
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
TEXTS = {".jinja", ".mako", ".css", ".js", ".json", ".sql", ".yaml"}
COLUMNS = ("modules", "statements", "docstrings", "texts")
#: A module with one importer, which lies in its own folder, may not be smaller.
SMALLEST = 80


def source(revision: str | None) -> dict[PurePosixPath, str]:
    """The text of every tracked file of a revision, or of the working tree."""
    git = ["git", "-C", str(ROOT)]
    listing = [*git, "ls-tree", "-r", "--name-only", revision] if revision else [*git, "ls-files"]
    names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()
    kept = [name for name in names if PurePosixPath(name).suffix in {".py", *TEXTS}]
    if revision is None:
        return {PurePosixPath(name): (ROOT / name).read_text() for name in kept if (ROOT / name).is_file()}
    asked = "".join(f"{revision}:{name}\n" for name in kept)
    answer = subprocess.run(
        [*git, "cat-file", "--batch"], input=asked.encode(), check=True, capture_output=True
    ).stdout
    found, at = {}, 0
    for name in kept:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[-1])
        found[PurePosixPath(name)] = answer[end + 1 : end + 1 + size].decode()
        at = end + 2 + size
    return found


def weigh(name: PurePosixPath, text: str) -> Counter[str]:
    """What one file adds to its folder."""
    if name.suffix != ".py":
        return Counter(texts=len(text.splitlines()))
    nodes = list(ast.walk(ast.parse(text)))
    documented = [
        node.body[0]
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    ]
    return Counter(
        modules=int(name.name != "__init__.py"),
        statements=sum(isinstance(node, ast.stmt) for node in nodes) - len(documented),
        docstrings=sum(int(each.end_lineno or 0) - each.lineno + 1 for each in documented),
    )


def folders(name: PurePosixPath) -> list[str]:
    """The rows in which a file is counted: its floor, and its folder below the floor."""
    parts = name.parent.parts
    return [parts[0], *(["/".join(parts[:2])] if len(parts) > 1 else [])] if parts else []


def table(revision: str | None) -> dict[str, Counter[str]]:
    """Weights of every folder."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for name, text in source(revision).items():
        weight = weigh(name, text)
        for folder in folders(name):
            rows[folder] += weight
    return rows


def importers(modules: dict[PurePosixPath, str]) -> dict[PurePosixPath, set[PurePosixPath]]:
    """Who imports each module of the product."""
    names = {".".join(("tabularium", *name.with_suffix("").parts)): name for name in modules}
    found: dict[PurePosixPath, set[PurePosixPath]] = defaultdict(set)
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            said = []
            if isinstance(node, ast.Import):
                said = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                said = [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
            for each in {names[known] for known in said if known in names}:
                found[each].add(name)
    return found


def lonely() -> list[tuple[int, PurePosixPath, PurePosixPath]]:
    """Modules that one neighbour in their folder alone imports, with their lines; the smallest last."""
    floors = {"mechanisms", "ledger", "validations", "tasks", "flows", "lab"}
    modules = {
        name: text
        for name, text in source(None).items()
        if name.suffix == ".py" and name.parts[0] in floors and name.name != "__init__.py"
    }
    return sorted(
        (
            (len(modules[name].splitlines()), name, next(iter(who)))
            for name, who in importers(modules).items()
            if len(who) == 1 and next(iter(who)).parent == name.parent
        ),
        reverse=True,
    )


def main() -> int:
    """Print the table, or the lonely modules; 1 where one of them is too small to stand alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("revision", nargs="*")
    parser.add_argument("--lonely", action="store_true")
    arguments = parser.parse_args()
    if arguments.lonely:
        found = lonely()
        small = [each for each in found if each[0] < SMALLEST]
        print(f"{len(found)} modules are imported by one neighbour alone")
        for lines, name, importer in small:
            print(f"{name}: {lines} lines, imported by {importer.name} alone: let it be part of that")
        return int(bool(small))
    tables = [table(revision) for revision in arguments.revision or [None]]
    print(f"{'':34}" + "".join(f"{column:>{11 * len(tables)}}" for column in COLUMNS))
    for folder in sorted({folder for rows in tables for folder in rows}):
        cells = (f"{rows[folder][column]:11,}" for column in COLUMNS for rows in tables)
        print(f"{folder:34}" + "".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
