"""Kinds of damage to a release folder: each takes a copy and a random generator, and says what it did.

The digests in the certificate are fixed up where a forger would: what is left to find is then the damage
itself. ``None`` means that nothing came of it. Of the signed statement a forger makes what he can: he leaves
it, takes it away, or signs anew with a key of his own, or one that he found (:func:`sealed`).
"""

from __future__ import annotations

import copy
import csv
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger.keys import key_id, public_hex
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.tasks.sign.statement import STATEMENT, NotAStatement, read_statement, signed_statement
from tabularium.validations.certificate import CERTIFICATE

Damage = Callable[[Path, random.Random], str | None]
Steps = tuple[str | int, ...]


def fix_up(folder: Path) -> None:
    """Name the digests of the files as they are now."""
    certificate = read(folder)
    for name in certificate["files"]:
        if (folder / name).is_file():
            certificate["files"][name] = digest_of(folder / name)
    write(folder, certificate)


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
    return found


def write(folder: Path, certificate: dict[str, Any]) -> None:
    text = json.dumps(certificate, indent=2, ensure_ascii=False) + "\n"
    (folder / "certificate.json").write_text(text)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def a_byte(folder: Path, chance: random.Random) -> str:
    """Another bit in one byte of any file."""
    path = chance.choice(_files(folder))
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)
    return path.relative_to(folder).as_posix()


def a_byte_fixed_up(folder: Path, chance: random.Random) -> str:
    """The same, and the digest of the file fixed up."""
    path = chance.choice([path for path in _files(folder) if path.name != "certificate.json"])
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)
    fix_up(folder)
    return path.relative_to(folder).as_posix()


def _csv(
    folder: Path, chance: random.Random, columns: tuple[str, ...], change: Callable[[str], str]
) -> str | None:
    """Change one cell of a table, in CSV and Parquet alike, and fix up the digests."""
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        if ".sdmx." not in path.name:
            with path.open(newline="") as file:
                tables[path.stem] = list(csv.reader(file))
    wanted = {
        name: [column for column in rows[0] if (column in columns if columns else not _number(column))]
        for name, rows in tables.items()
    }
    name = chance.choice([name for name, known in wanted.items() if known])
    rows, known = tables[name], wanted[name]
    column, line = rows[0].index(chance.choice(known)), chance.randrange(1, len(rows))
    before = rows[line][column]
    rows[line][column] = change(before)
    if rows[line][column] == before:
        return None
    with (folder / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_MINIMAL).writerows(rows)
    frame = pq.read_table(folder / f"{name}.parquet")
    values = frame.column(column).to_pylist()
    kind = frame.schema.field(column).type
    values[line - 1] = rows[line][column] if isinstance(values[line - 1], str) else int(rows[line][column])
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    made = pa.array(values, plain)
    made = made.dictionary_encode() if pa.types.is_dictionary(kind) else made
    pq.write_table(
        frame.set_column(column, frame.schema.field(column).name, made.cast(kind)), folder / f"{name}.parquet"
    )
    fix_up(folder)
    return f"{name}.{rows[0][column]}"


def _number(column: str) -> bool:
    return column in ("count", "margin", "size", "number")


def a_number(folder: Path, chance: random.Random) -> str | None:
    """One more or less, in all formats."""
    return _csv(
        folder, chance, ("count", "number", "size"), lambda old: str(int(old) + chance.choice((-1, 1, 100)))
    )


def a_margin(folder: Path, chance: random.Random) -> str | None:
    """A margin that is smaller or larger, in all formats."""
    return _csv(folder, chance, ("margin",), lambda old: str(max(0, int(old) + chance.choice((-1, 1, 7)))))


def a_label(folder: Path, chance: random.Random) -> str | None:
    """A code or label of one row, in all formats."""
    return _csv(folder, chance, (), lambda old: chance.choice((old + "x", "Nation", "A", "0-19")))


def a_number_in_one_format(folder: Path, chance: random.Random) -> str | None:
    """One more in SDMX-CSV or in the workbook, and in no other."""
    tables, workbook = sorted(folder.glob("*.sdmx.csv")), folder / "tables.xlsx"
    if chance.random() < 0.5 and tables:
        path = chance.choice(tables)
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        column, line = rows[0].index("OBS_VALUE"), chance.randrange(1, len(rows))
        rows[line][column] = str(int(rows[line][column]) + 1)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    elif not workbook.exists():
        return None
    else:
        path = workbook
        book = openpyxl.load_workbook(path)
        sheet = chance.choice(book.worksheets[:-1])
        cell = sheet.cell(chance.randrange(4, sheet.max_row + 1), sheet.max_column)
        cell.value = (cell.value or 0) + 1
        book.save(path)
    fix_up(folder)
    return path.relative_to(folder).as_posix()


def a_code_list(folder: Path, chance: random.Random) -> str | None:
    """A label in a code list."""
    path = chance.choice(sorted((folder / "codes").iterdir()))
    path.write_text(path.read_text().replace("Alpha one", "Alpha two"))
    fix_up(folder)
    return path.relative_to(folder).as_posix()


def a_measurement(folder: Path, chance: random.Random) -> str:
    """One noisy number."""
    path = chance.choice(sorted((folder / "measurements").glob("*.parquet")))
    frame = pq.read_table(path)
    values = frame["measured"].to_pylist()
    values[chance.randrange(len(values))] += chance.choice((-5, 1, 40))
    place = frame.schema.get_field_index("measured")
    made = pa.array(values, frame.schema.field(place).type)
    pq.write_table(frame.set_column(place, "measured", made), path)
    fix_up(folder)
    return path.relative_to(folder).as_posix()


def swapped(folder: Path, chance: random.Random) -> str | None:
    """Two files exchanged."""
    one, other = chance.sample(_files(folder), 2)
    before = one.read_bytes()
    if before == other.read_bytes():
        return None
    one.write_bytes(other.read_bytes())
    other.write_bytes(before)
    if "certificate.json" not in (one.name, other.name) and chance.random() < 0.5:
        fix_up(folder)
    return f"{one.name} and {other.name}"


def added(folder: Path, chance: random.Random) -> str:
    """A file, folder, link or pipe that no release has; sometimes the certificate names it."""
    name = chance.choice(("notes.txt", ".hidden", "codes/more.csv", "new", "more.xlsx", "agency.pem"))
    kind = chance.choice(("file", "named", "link", "pipe", "folder"))
    path = folder / name
    if kind in ("file", "named"):
        path.write_text("words")
    elif kind == "link":
        path.symlink_to(folder / "certificate.json")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    if kind == "named":
        certificate = read(folder)
        certificate["files"][name] = digest_of(path)
        write(folder, certificate)
    return f"{kind} {name}"


def removed(folder: Path, chance: random.Random) -> str:
    """A file is gone; sometimes from the certificate too."""
    path = chance.choice([path for path in _files(folder) if path.name != "certificate.json"])
    name = path.relative_to(folder).as_posix()
    path.unlink()
    if chance.random() < 0.5:
        certificate = read(folder)
        certificate["files"].pop(name, None)
        write(folder, certificate)
    return name


def a_scale(folder: Path, chance: random.Random) -> str:
    """Scale and its square of one draw, in the certificate and beside the measurements."""
    return _draw(folder, chance, {"scale": "7/1", "scale_squared": "49/1"})


def a_loss(folder: Path, chance: random.Random) -> str:
    """What one draw costs."""
    return _draw(folder, chance, {"loss": chance.choice(("1/1000", "1/2", "3/7"))})


def a_cheaper_draw(folder: Path, chance: random.Random) -> str:
    """Loss and scale of one draw, so that they fit each other."""
    return _draw(
        folder, chance, {"loss": "1/50", "scale": "50/1", "scale_squared": "2500/1", "sensitivity": "1/1"}
    )


def _draw(folder: Path, chance: random.Random, change: dict[str, str]) -> str:
    certificate = read(folder)
    place = chance.randrange(len(certificate["transcript"]))
    old = dict(certificate["transcript"][place])
    certificate["transcript"][place].update(change)
    write(folder, certificate)
    index = folder / "measurements" / "measurements.json"
    text = json.loads(index.read_text())
    for entry in text["measurements"]:
        for event in entry["measured"]["transcript"]:
            if event == old:
                event.update(change)
    index.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n")
    fix_up(folder)
    return f"draw {place}"


def a_budget(folder: Path, chance: random.Random) -> str:
    """The ε that the certificate promises, the charge, or the spec's."""
    certificate = read(folder)
    where = chance.choice((("privacy", "epsilon"), ("ledger", "amount"), ("spec", "privacy", "budget")))
    inner: Any = certificate
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = chance.choice(("1/2", "2", "1/10"))
    write(folder, certificate)
    return ".".join(where)


def leaves(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """Every place in JSON that holds a plain value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for key, one in inner:
        found = True
        yield from leaves(one, (*steps, key))
    if not found:
        yield steps


def a_field(folder: Path, chance: random.Random) -> str:
    """Any value in the certificate but digests of files."""
    certificate = read(folder)
    steps = chance.choice([steps for steps in leaves(certificate) if steps[0] != "files"])
    write(folder, with_another_value(certificate, steps, chance))
    return ".".join(map(str, steps))


def with_another_value(certificate: dict[str, Any], steps: Steps, chance: random.Random) -> dict[str, Any]:
    """Return a certificate in which one value is another."""
    certificate = copy.deepcopy(certificate)
    inner: Any = certificate
    for step in steps[:-1]:
        inner = inner[step]
    old = inner[steps[-1]]
    if isinstance(old, bool) or old is None:
        inner[steps[-1]] = "x" if old is None else not old
    elif isinstance(old, int | float):
        inner[steps[-1]] = old + chance.choice((1, -1, 13))
    elif isinstance(old, str):
        inner[steps[-1]] = old + chance.choice(("0", "x", " "))
    else:
        inner[steps[-1]] = ["more"]
    return certificate


def a_statement(folder: Path, chance: random.Random) -> str:
    """A statement that is none, or says or bears something else; its files are as they were."""
    place = folder / STATEMENT
    envelope = json.loads(place.read_text())
    kind = chance.choice(("words", "twice", "another name", "another signature", "another payload"))
    if kind == "words":
        empty = '{"payload": "", "payloadType": "application/vnd.in-toto+json", "signatures": []}'
        place.write_text(chance.choice(("{}", "[]", "words", "", empty)))
        return kind
    (signature,) = envelope["signatures"]
    if kind == "twice":
        envelope["signatures"] = [signature, {**signature, "keyid": "0" * 32}]
    elif kind == "another name":
        signature["keyid"] = chance.choice(("", "0" * 32, signature["keyid"][::-1]))
    elif kind == "another signature":
        signature["sig"] = signature["sig"].translate(str.maketrans("ABCD", "DCBA"))
    else:
        envelope["payload"] = envelope["payload"][:-8] + envelope["payload"][-4:]
    place.write_text(json.dumps(envelope, sort_keys=True, indent=2) + "\n")
    return kind


def a_foreign_signature(folder: Path, chance: random.Random) -> str:
    """Nothing is changed but who signed: :func:`sealed` does it."""
    return STATEMENT


def an_older_export(folder: Path, chance: random.Random) -> str:
    """Nothing is changed: what is given with the folder is an export from before it was published."""
    return chance.choice(("unpaid", "unpublished"))


def sealed(
    folder: Path, kind: Damage, chance: random.Random, forgers: Mapping[str, Ed25519PrivateKey]
) -> str:
    """Do with the statement of a damaged folder what a forger might, and say what."""
    if kind in (an_older_export, a_statement):
        return "left"
    own = kind is a_foreign_signature
    how = chance.choice((*sorted(forgers), *(() if own else ("left", "none"))))
    place = folder / STATEMENT
    if how == "none":
        place.unlink(missing_ok=True)
    elif how != "left":
        _sign_anew(folder, chance, forgers[how])
    return how


def _sign_anew(folder: Path, chance: random.Random, key: Ed25519PrivateKey) -> None:
    """Sign what lies in the folder now, with a key that is not the agency's; at times under its name."""
    place = folder / STATEMENT
    try:
        before = read_statement(place.read_bytes())
        certificate = read(folder)
    except (OSError, ValueError, NotAStatement):
        return
    files = {path.relative_to(folder).as_posix(): digest_of(path) for path in _files(folder)}
    files.pop(STATEMENT)
    names = ("release_id", "product", "period", "spec_digest", "revises")
    said = {name: certificate.get(name) for name in names}
    said |= {"account": certificate.get("dataset"), "certificate": files[CERTIFICATE]}
    raw = signed_statement(files, replace(before.predicate, **said), key)
    if chance.random() < 0.3:
        raw = raw.replace(key_id(public_hex(key)).encode(), before.key.encode())
    place.write_bytes(raw)


DAMAGES: tuple[Damage, ...] = (
    *(a_byte, a_byte_fixed_up, a_number, a_number_in_one_format, a_margin, a_label, a_code_list),
    *(a_measurement, swapped, added, removed, a_scale, a_loss, a_cheaper_draw, a_budget, a_field),
    *(a_statement, a_foreign_signature, an_older_export),
)
