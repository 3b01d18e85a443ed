"""Publishing so that it comes out the same each time, and what was published as texts that can be compared."""

from __future__ import annotations

import base64
import csv
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openpyxl
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import tabularium
import tabularium.tasks.measure
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.mechanisms.channel import SeededChannel
from tabularium.tasks.publish.certificate import sections as certifying
from tabularium.tasks.publish.certificate import software, spending
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.tasks.runtime import home
from tabularium.tasks.sign import sign_release
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.verify import certificate_checks
from tabularium.validations.certificate import CERTIFICATE
from tests.net.specs import Published, Publishing, invoked
from tests.tasks.report.reported import lines

NOW = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)
SIMULATED = 8  # releases, for margins
FAILED = "this command failed, with"

LEFT_OUT = {
    "certificate.json: created": "the time",
    "certificate.json: software": "versions",
    "certificate.json: code": "digests of the program",
    "certificate.json: audits": "recorded anew after a change of the mechanisms",
    "certificate.json: files": "digests of files, which have digests of their own here",
    "certificate.json: measurements.digest": "of a stored file that names the ledger's head",
    "statement.dsse.json: signatures": "over what follows too",
    "statement.dsse.json: subject": "digests of files again",
    "bill-of-materials.cdx.json": "versions",
    "report.html: pictures": "drawn by a library, from numbers that the tables have",
    "digests of certificates and hashes of the ledger's entries": "hang on all of these",
    "digits behind the ninth, and what is below 10^-9": "differ between processors",
}
"""What is not compared, and why: files, fields of them, and what may stand anywhere.

The files and fields are fixed while the net publishes.
"""


# --- publishing


def draw_from(seed: str, budget: Fraction, definition: Any) -> SeededChannel:
    """Return a channel of predictable noise that passes for a secure one."""
    channel = SeededChannel(budget, seed=f"net {seed}", definition=definition)
    channel._source.insecure = False
    return channel


@contextmanager
def settled() -> Iterator[pytest.MonkeyPatch]:
    """Let noise, time, keys and names be the same in every run, whatever ran before.

    What is left out of the comparison is fixed too: later releases of a ledger hang on it.
    """
    draw_job, draw_tally = tabularium.tasks.measure.draw_job, tabularium.tasks.measure.draw_tally

    def job(job: Any, channel: Any, arrays: Any) -> Any:
        return draw_job(job, draw_from(job.part, channel.budget, channel.definition), arrays)

    def tally(spec: Any, tally: Any, units: Any, channel: Any) -> Any:
        return draw_tally(spec, tally, units, draw_from(tally.purpose, channel.budget, channel.definition))

    keys = itertools.count()
    key = Ed25519PrivateKey.from_private_bytes
    clock = SimpleNamespace(UTC=UTC, datetime=SimpleNamespace(now=lambda _zone: NOW))
    packages = SimpleNamespace(
        version=lambda _name: "1", distributions=list, PackageNotFoundError=metadata.PackageNotFoundError
    )
    random = SimpleNamespace(token_bytes=lambda size: b"s" * size, token_hex=home.secrets.token_hex)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabularium.tasks.measure, "draw_job", job)
        patch.setattr(tabularium.tasks.measure, "draw_tally", tally)
        patch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: SIMULATED)
        patch.setattr("tabularium.tasks.report.report.plots_of", lambda *_: [])  # left out
        patch.setattr(home, "secrets", random)
        patch.setattr(Ed25519PrivateKey, "generate", lambda: key(hashlib.sha256(b"%d" % next(keys)).digest()))
        patch.setitem(Ledger.connect.__func__.__kwdefaults__, "clock", lambda: NOW)  # type: ignore[attr-defined]
        patch.setattr(certifying, "dt", clock)
        patch.setattr(sign_release, "dt", clock)
        patch.setattr(certifying, "platform", SimpleNamespace(python_version=lambda: "3"))
        patch.setattr(software, "metadata", packages)
        patch.setattr(certificate_checks, "metadata", packages)
        patch.setattr(software, "code_digest", lambda *_, **__: "0" * 64)
        patch.setattr(software, "commit", lambda: None)
        patch.setattr(software, "packages_digest", lambda: ("0" * 64, 1))
        patch.setattr(spending, "audits", dict)
        patch.setattr(software, "of_this_installation", lambda *_: ({"metadata": {}}, []))
        for name in ("HOME", "LEDGER", "WITNESS", "WORKSPACES"):
            patch.delenv(f"TABULARIUM_{name}", raising=False)
        yield patch


def published_texts(publishing: Publishing, folder: Path) -> dict[str, str]:
    """Publish a spec in a new folder, and return all its outputs by name, without where they lie."""
    folder.mkdir(parents=True)
    found = publishing(folder)
    texts = dict(_outputs(found, folder))
    names = {str(folder): "FOLDER"}
    with Ledger.connect(found.home.ledger_url) as ledger:
        names |= {entry.hash: "ENTRY" for entry in ledger.entries()}
    for release in found.releases:
        digest = digest_of(release / CERTIFICATE)
        names |= {digest: "CERTIFICATE", digest[:16]: "CERTIFICATE"}
    for old, new in names.items():
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return {name: re.sub(r"\d+\.\d{7,}(e[+-]?\d+)?", _nine_digits, text) for name, text in texts.items()}


def _nine_digits(number: re.Match[str]) -> str:
    return f"{float(number[0]):.9g}" if float(number[0]) >= 1e-9 else "0.0"


def digests(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each text."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())}


def differing(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the names of outputs that are not as they were recorded: other, new or gone."""
    return sorted(name for name in {*recorded, *found} if recorded.get(name) != found.get(name))


def write_texts(texts: Mapping[str, str], folder: Path) -> None:
    """Write texts as files, for people who compare them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("/", "|")).write_text(text, encoding="utf-8")


# --- what was published, as texts


def _outputs(found: Published, folder: Path) -> Iterator[tuple[str, str]]:
    several = len(found.releases) > 1
    books = folder / "books.txt"
    with Ledger.connect(found.home.ledger_url) as ledger:
        export(ledger, books)
    for number, release in enumerate(found.releases, 1):
        before = f"release {number}: " if several else ""
        for path in sorted(release.rglob("*")):
            if path.is_file() and (text := text_of(path)) is not None:
                yield f"{before}{path.relative_to(release)}", text
        yield f"{before}margins", _margins(release)
        yield f"{before}verify", _said("verify", release, "--export", books)
        yield f"{before}registry.yaml", _registry_entry(release)
    last = found.releases[-1]
    if several:
        earlier = [word for release in found.releases[:-1] for word in ("--since", release)]
        yield "verify, all", _said("verify", last, *earlier, "--export", books)
    yield "query", _said("query", last)
    for words in found.queries:
        yield f"query {' '.join(words)}", _said("query", last, *words)
        yield f"query {' '.join(words)} --json", _said("query", last, *words, "--json")
    yield "check", _said("check", found.spec)
    yield "check --json", _said("check", found.spec, "--json")
    for words in found.plans:
        named = [str(last) if word == "LAST" else word for word in words]
        yield " ".join(("plan", *words)), _said("plan", found.spec, *named)
    yield "ledger history", _said("ledger", "history", "--last", "0", "--home", found.home.path)
    for path in sorted(last.parents[1].glob("*/index.json")):
        yield f"{path.parent.name}/index.json", path.read_text()


def _registry_entry(release: Path) -> str:
    path = release.parents[1] / "registry.yaml"
    tabularium.open(release, verify=False).registry_entry(path)
    text = path.read_text()
    path.unlink()
    return text


def _said(*words: str | Path) -> str:
    """Return what a command prints, and how it ended if it failed."""
    code, text = invoked(*words)
    return f"{FAILED} {code}\n{text}" if code else text


def text_of(path: Path) -> str | None:
    """Return what a file holds, in the order in which it stands there; None of what is left out."""
    if path.name in LEFT_OUT:
        return None
    if path.name in (CERTIFICATE, STATEMENT):
        return _json_text(path)
    return TEXTS.get(path.suffix, Path.read_text)(path)


def _json_text(path: Path) -> str:
    content = json.loads(path.read_bytes())
    if path.name == STATEMENT:
        content |= json.loads(base64.b64decode(content.pop("payload")))
    for name in LEFT_OUT:
        file, _, field = name.partition(": ")
        if file == path.name and field:
            *outer, inner = field.split(".")
            place = content
            for step in outer:
                place = place[step]
            del place[inner]
    return json.dumps(content, indent=1, ensure_ascii=False)


def _parquet_text(path: Path) -> str:
    """Return types, metadata and rows: the bytes hold the version of the library."""
    table = pq.read_table(path)
    about = [f"{name.decode()} = {text.decode()}" for name, text in (table.schema.metadata or {}).items()]
    for field in table.schema:
        about.append(f"{field.name}: {field.type}{'' if field.nullable else ', never null'}")
        about += [f"  {name.decode()} = {text.decode()}" for name, text in (field.metadata or {}).items()]
    rows = (" ".join(map(repr, row)) for row in zip(*table.to_pydict().values(), strict=True))
    return "\n".join([*about, *rows])


def _workbook_text(path: Path) -> str:
    """Return every sheet row by row: what packs a workbook may change."""
    book = openpyxl.load_workbook(path)
    about = f"{book.properties.title} {book.properties.created}"
    sheets = (
        f"{sheet.title}\n" + "\n".join(repr([(cell.data_type, cell.value) for cell in row]) for row in sheet)
        for sheet in book
    )
    return "\n".join([about, *sheets])


def _page_text(path: Path) -> str:
    """Return the words of a page: it writes a float that is whole but for its last digit as 600.0, or 600."""
    return re.sub(r"(?<=\d)\.0\b", "", "\n".join(lines(path.read_bytes())))


TEXTS: dict[str, Callable[[Path], str]] = {
    ".parquet": _parquet_text,
    ".xlsx": _workbook_text,
    ".html": _page_text,
}


def _margins(release: Path) -> str:
    """Return the columns of margins of all tables."""
    found = []
    for path in sorted(release.glob("*.csv")):
        if path.name.endswith(".sdmx.csv"):
            continue
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                found.append(" ".join([path.stem, *(row[name] for name in row if name.endswith("margin"))]))
    return "\n".join(found)
