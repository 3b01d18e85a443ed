"""The desk with many products and a long ledger: seconds until it has started, and for each page.

``python -m benchmarks.bench_desk`` makes 50 products and 10 000 entries in one account and times every
page five times. The pages are asked for as a browser does, from the command ``tabularium desk`` itself.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from fractions import Fraction
from http.cookiejar import CookieJar
from pathlib import Path

from tabularium.ledger import Ledger
from tabularium.ledger.measurement.release_lock import hold
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import write_scene


def fill(home: Home, products: int, entries: int) -> None:
    """Charge products one after the other, four entries each, until there are so many."""
    with Ledger.connect(home.ledger_url) as ledger:
        terms = {"unit": "record", "relation": "add-remove", "definition": "pure"}
        ledger.open_account("many", **terms, cap=Fraction(entries))
        number = 0
        while ledger.head().seq < entries:
            period, product = divmod(number, products)
            name = hashlib.sha256(str(number).encode()).hexdigest()
            with hold(ledger, name[:32]):
                ledger.reserve(
                    "many",
                    release_id=name[:32],
                    amount=Fraction(1, 4),
                    product=f"product-{product:02}",
                    period=f"{2000 + period}",
                    spec_digest=name,
                )
                fence = ledger.drawing(name[:32])
                ledger.measured(name[:32], fence, digest=name)
                ledger.published(name[:32], fence, digest=name)
            number += 1


def main() -> None:
    """Time it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=50)
    parser.add_argument("--entries", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spec, home = write_scene(Path(folder, "scene"))
        fill(home, asked.products, asked.entries)
        began = time.perf_counter()
        command = [sys.executable, "-m", "tabularium.flows.cli.app", "desk", "--home", str(home.path)]
        running = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            assert running.stdout is not None
            address = next(line for line in running.stdout if "/enter?" in line).strip()
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            opener.open(address).read()
            print(f"started and first page: {time.perf_counter() - began:.2f} s")
            base = address.partition("/enter")[0]
            with Ledger.connect(home.ledger_url) as ledger:
                release = ledger.last_charges("many", 1)[0].release_id
            pages = (
                *("/", "/accounts", "/accounts/many", "/releases", "/products/product-00"),
                *(f"/releases/{release}", "/history", "/history?page=200", f"/approve?spec={spec}"),
            )
            for page in pages:
                times = []
                for _ in range(5):
                    began = time.perf_counter()
                    opener.open(base + page).read()
                    times.append(time.perf_counter() - began)
                print(f"{page[:40]:40}  median {statistics.median(times):.3f} s, first {times[0]:.3f}")
        finally:
            running.terminate()
            running.wait()


if __name__ == "__main__":
    main()
