"""A site over many releases, and the spending review of a ledger of as many: seconds, and size of the site.

    python -m benchmarks.bench_site [--releases 1000] [--folder DIR]

One small release is made for real; the others are its copies under other names, with certificates and indexes
that fit, over fifty products that twenty accounts pay for. The review reads an export of a ledger in which as
many charges were published.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.bench_release import command, measure
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tests.flows.release.scene import publish, write_scene

PRODUCTS, ACCOUNTS = 50, 20
COST, CAP = Fraction(1, 100), Fraction(20)


def placed(number: int) -> tuple[str, str, str]:
    """Return product, period and account of a release."""
    product, month = number % PRODUCTS, number // PRODUCTS
    period = f"{2020 + month // 12}-{1 + month % 12:02}"
    return f"product-{product:02}", period, f"account-{product % ACCOUNTS:02}"


def many(release: Path, to: Path, number: int) -> None:
    """Put ``number`` copies of a release into a folder of releases; their files are links to its own."""
    said = json.loads((release / "certificate.json").read_bytes())
    said["account"]["cap"] = str(CAP)
    used: dict[str, Fraction] = {}
    for each in range(number):
        product, period, account = placed(each)
        name = hashlib.sha256(f"{product}/{period}".encode()).hexdigest()[:32]
        before = used.get(account, Fraction(0))
        used[account] = before + COST
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=each)
        refit(said, product, period, name, account, before, at, each)
        folder = to / product / period / name
        for file in said["files"]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            os.link(release / file, folder / file)
        raw = json.dumps(said, ensure_ascii=False, indent=2).encode()
        (folder / "certificate.json").write_bytes(raw)
        (folder.parent / "current").symlink_to(name)
        (folder.parent / "index.json").write_text(json.dumps(index(said, hashlib.sha256(raw).hexdigest())))


def refit(
    said: dict[str, Any],
    product: str,
    period: str,
    name: str,
    account: str,
    before: Fraction,
    at: datetime,
    entry: int,
) -> None:
    """Have a certificate be that of another product, period and charge."""
    said.update(product=product, period=period, release_id=name, dataset=account)
    said.update(created=at.isoformat(timespec="seconds"))
    said["spec"].update(product=product, period=period, dataset=account)
    said["about"]["title"] = f"Statistics of the {product.replace('-', ' number ')}"
    said["account"].update(name=account, population=f"people of {account[-1]}")
    said["account"]["reserved"] = {
        "entry": entry + 1,
        "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "amount": str(COST),
        "left_before": str(CAP - before),
        "left_after": str(CAP - before - COST),
    }
    said["account"]["cumulative"].update(used=str(before + COST))


def index(said: dict[str, Any], digest: str) -> dict[str, Any]:
    """Return the index of a period with one release."""
    entry = {"release_id": said["release_id"], "entry": 1, "created": said["created"], "certificate": digest}
    entry |= {"revises": None, "state": "current", "ended": None}
    head = {"format": 1, "product": said["product"], "period": said["period"]}
    return {**head, "current": said["release_id"], "releases": [entry]}


def charged(folder: Path, number: int) -> Path:
    """Return an export of a ledger with as many published charges."""
    with Ledger.connect(f"sqlite:///{folder / 'books.db'}") as books:
        for each in range(ACCOUNTS):
            terms = {"unit": "person", "population": f"people of {each % 10}", "relation": "add-remove"}
            books.open_account(f"account-{each:02}", **terms, definition="pure", cap=CAP)
        for each in range(number):
            product, period, account = placed(each)
            name, digest = f"r{each}", hashlib.sha256(str(each).encode()).hexdigest()
            what = {"product": product, "period": period, "spec_digest": digest}
            books.reserve(account, release_id=name, amount=COST, **what)
            fence = books.drawing(name)
            books.measured(name, fence, digest=digest)
            books.published(name, fence, digest=digest)
        export(books, folder / "books.txt")
    return folder / "books.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tabularium-bench-site")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    spec, home = write_scene(options.folder / "real", rows=600)
    real = Path(publish(spec, home).folder)
    many(real, options.folder / "releases", options.releases)
    words = ("site", str(options.folder / "releases"), "--out", str(options.folder / "site"), "--json")
    for which in ("first", "again"):
        seconds, peak, outcome = measure(command(*words), dict(os.environ))
        assert outcome["releases"] == options.releases
        print(f"site of {options.releases} releases, {which}: {seconds:.1f} s, {peak / 2**20:.0f} MiB")
    sizes = [path.stat().st_size for path in (options.folder / "site").rglob("*") if path.is_file()]
    print(f"  {len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB, the largest {max(sizes) / 2**10:.0f} KiB")
    books = charged(options.folder, options.releases)
    words = ("ledger", "review", "--export", str(books), "--json")
    seconds, peak, _ = measure(command(*words), dict(os.environ))
    print(f"review of {options.releases} releases: {seconds:.1f} s, {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
