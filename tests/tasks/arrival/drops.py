"""Inboxes and drops to test with, and two hundred ways to damage one."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.inboxes import Inbox, add
from tabularium.tasks.arrival.look import look
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import people, write_scene

PRODUCT, PERIOD = "small", "2026"
TEXT = "\n".join(",".join(row) for row in [("area", "age", "sex"), *people(600)]).encode() + b"\n"
FILES = {"people.csv": TEXT}


def write_inbox(folder: Path, **settings: Any) -> tuple[Home, Inbox]:
    """Write the small release's scene and an inbox for it, whose drops are judged at once."""
    spec, home = write_scene(folder)
    (folder / "people.csv").unlink()
    (folder / "inbox").mkdir()
    kept = add(home, Inbox(PRODUCT, str(folder / "inbox"), str(spec), **{"patience": 0.0, **settings}))
    return home, kept


def manifest(files: Mapping[str, bytes] = FILES, /, digest: str = "", **others: Any) -> dict[str, Any]:
    """Return the manifest of files; ``others`` are put over it."""
    listed = [
        {"name": name, "size": len(content), "sha256": digest or hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    ]
    return {"product": PRODUCT, "period": PERIOD, "files": listed, **others}


def write_drop(
    inbox: Inbox | Path, name: str = "first", files: Mapping[str, bytes] = FILES, **others: Any
) -> Path:
    """Write a drop with its manifest last."""
    folder = Path(inbox.address if isinstance(inbox, Inbox) else inbox) / name
    folder.mkdir()
    for each, content in files.items():
        (folder / each).write_bytes(content)
    (folder / "drop.json").write_text(json.dumps(manifest(files, **others)))
    return folder


def drops_of(home: Home) -> list[Drop]:
    with Claims.at(home) as claims:
        return claims.of_product(PRODUCT)


def seen(home: Home, inbox: Inbox) -> list[Drop]:
    """Look at an inbox until nothing is left to be done there; return its drops."""
    while look(home, inbox):
        pass
    return drops_of(home)


def why(inbox: Inbox, name: str) -> str:
    """Return the line beside a drop in quarantine."""
    return (Path(inbox.address) / "quarantine" / f"{name}.why.txt").read_text()


def damage(drop: Path, chance: random.Random) -> str:
    """Damage a whole drop in one of many ways, each with random places and values; return which."""
    name = chance.choice(sorted(_DAMAGES))
    _DAMAGES[name](drop, chance)
    return name


def _edit(change: Callable[[dict[str, Any], random.Random], object]) -> Callable[[Path, random.Random], None]:
    def damaged(drop: Path, chance: random.Random) -> None:
        data = json.loads((drop / "drop.json").read_text())
        change(data, chance)
        (drop / "drop.json").write_text(json.dumps(data))

    return damaged


def _of_file(key: str, values: list[Any]) -> Callable[[Path, random.Random], None]:
    return _edit(lambda data, chance: data["files"][0].update({key: chance.choice(values)}))


def _flip_a_bit(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _cut(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def _flip_in_manifest(drop: Path, chance: random.Random) -> None:
    """Until it says something else that is wrong: another year is another drop, a capital no other digest."""
    before = (drop / "drop.json").read_bytes()
    while True:
        _flip_a_bit(drop / "drop.json", chance)
        found, known = json_of(drop), json.loads(before)
        if lowered(found) != lowered(known) and not (
            isinstance(found, dict)
            and re.fullmatch(r"\d{4}", str(found.get("period")), re.ASCII)
            and {**found, "period": known["period"]} == known
        ):
            return
        (drop / "drop.json").write_bytes(before)


def lowered(data: Any) -> Any:
    return json.loads(json.dumps(data).lower())


def json_of(drop: Path) -> Any:
    try:
        return json.loads((drop / "drop.json").read_bytes())
    except ValueError:
        return None


def _elsewhere(make: Callable[[Path, Path], object]) -> Callable[[Path, random.Random], None]:
    """Keep the content outside the drop, and put something else in its place."""

    def damaged(drop: Path, chance: random.Random) -> None:
        del chance
        outside = drop.parent.parent / f"outside-{drop.name}"
        (drop / "people.csv").rename(outside)
        make(drop / "people.csv", outside)

    return damaged


def _twice(drop: Path, chance: random.Random) -> None:
    text = (drop / "drop.json").read_text()
    doubled = chance.choice(['"product": "small"', f'"period": "{PERIOD}"'])
    (drop / "drop.json").write_text(text.replace(doubled, f"{doubled}, {doubled}"))


_DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    "a bit of the data": lambda drop, chance: _flip_a_bit(drop / "people.csv", chance),
    "data cut off": lambda drop, chance: _cut(drop / "people.csv", chance),
    "data too long": lambda drop, chance: (drop / "people.csv").write_bytes(TEXT + chance.randbytes(9)),
    "no data": lambda drop, _: (drop / "people.csv").unlink(),
    "other data of the same size": lambda drop, chance: (drop / "people.csv").write_bytes(
        chance.randbytes(len(TEXT))
    ),
    "a bit of the manifest": _flip_in_manifest,
    "manifest cut off": lambda drop, chance: _cut(drop / "drop.json", chance),
    "manifest of no text": lambda drop, chance: (drop / "drop.json").write_bytes(chance.randbytes(300)),
    "a key twice": _twice,
    "deep manifest": lambda drop, chance: (drop / "drop.json").write_text(
        "[" * chance.randrange(5_000, 90_000)
    ),
    "huge manifest": lambda drop, chance: (drop / "drop.json").write_bytes(
        b" " * chance.randrange((1 << 21) + 1, 5 << 20)
    ),
    "huge number": lambda drop, _: (drop / "drop.json").write_text('{"files": ' + "9" * 9_000 + "}"),
    "a key is missing": _edit(lambda data, chance: data.pop(chance.choice(sorted(data)))),
    "an unknown key": _edit(lambda data, chance: data.update({f"key{chance.random()}": 1})),
    "a file twice": _edit(lambda data, _: data["files"].append(data["files"][0])),
    "no files": _edit(lambda data, chance: data.update(files=chance.choice([[], {}, None, "people.csv"]))),
    "many files": _edit(lambda data, _: data.update(files=data["files"] * 10_001)),
    "another product": _edit(lambda data, chance: data.update(product=chance.choice(["large", "", 1, None]))),
    "a bad period": _edit(
        lambda data, chance: data.update(period=chance.choice(["2026-Q1", "26", "../2026", 2026, "", None, "٢٠٢٦"]))
    ),
    "a bad name": _of_file(
        "name",
        ["../people.csv", "/etc/passwd", "a/../people.csv", "", ".", "..", "people.csv\0", "x" * 300, None,
         "drop.json", "C:\\people.csv", "~root", "-rf"],
    ),
    "a bad size": _of_file("size", [-1, 1.5, "12", True, None, 1 << 60, 10**30, 0]),
    "a bad digest": _of_file("sha256", ["", "0" * 64, "G" * 64, "0" * 63, None, 0]),
    "a link": _elsewhere(lambda there, outside: there.symlink_to(outside)),
    "a hard link": _elsewhere(lambda there, outside: os.link(outside, there)),
    "a pipe": _elsewhere(lambda there, _: os.mkfifo(there)),
    "a folder": _elsewhere(lambda there, _: there.mkdir()),
    "a link as manifest": lambda drop, _: (
        (drop / "drop.json").rename(drop / ".kept"),
        (drop / "drop.json").symlink_to(".kept"),
    ),
    "more than it lists": lambda drop, chance: (drop / f"more{chance.random()}").write_text("x"),
}  # fmt: skip
