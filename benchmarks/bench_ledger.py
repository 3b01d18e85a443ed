"""The ledger at full size: racing, cost at a long chain, verification, kills, damage.

    python -m benchmarks.bench_ledger race     [--engine sqlite|postgresql] [--processes 32]
    python -m benchmarks.bench_ledger cost     [--engine …] [--entries 1000000] [--charges 300]
    python -m benchmarks.bench_ledger verify   [--engine …] [--entries 1000000]
    python -m benchmarks.bench_ledger kill     [--engine …] [--releases 300] [--kills 60]
    python -m benchmarks.bench_ledger damage   [--entries 20000] [--times 1000]

Several may be asked for at once: ``verify cost`` makes the long ledger, which takes minutes, once for both.

The server of PostgreSQL is started for the run, with fsync on. ``--folder`` says on which disk all of it lies.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from tabularium.ledger import ChainBroken, Ledger
from tabularium.ledger.export import restore, verify_export
from tests.ledger.long_chain import write_export
from tests.ledger.scene import keep_witnesses, new_place, open_books, run_driver, url
from tests.ledger.storage.postgres import running


@contextmanager
def folder_for(engine: str, under: Path | None) -> Iterator[Path]:
    """Yield a folder whose ledgers are kept by ``engine``."""
    with tempfile.TemporaryDirectory(dir=under) as made:
        folder = Path(made)
        keep_witnesses(folder)
        if engine == "sqlite":
            yield folder
            return
        with running(under, durable=True) as server:
            (folder / "url").write_text(server.url("postgres"))
            yield folder


def race(folder: Path, processes: int) -> None:
    attempts = -(-1500 // processes)
    before = syncs(folder)
    print(
        *run_driver(
            "race_driver",
            new_place(folder, "race"),
            str(processes),
            str(attempts),
            "1000",
            patience=3600,
        )
    )
    print(f"disk: {before:.0f} syncs/s before, {syncs(folder):.0f} after; {loaded()}")


def syncs(folder: Path, seconds: float = 1.0) -> float:
    """Return how often in a second the disk under ``folder`` makes a small write durable.

    A commit is at least one such write, made while all other writers wait: no ledger there is quicker.
    """
    number, page = 0, bytes(8192)
    with (folder / "syncs").open("wb", buffering=0) as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            os.pwrite(file.fileno(), page, 8192 * (number % 128))
            os.fdatasync(file.fileno())
            number += 1
        return number / (time.perf_counter() - began)


def loaded() -> str:
    """Say how busy the machine was in the last minute, by us and by others, and what its host took since the start."""
    spent = [now - then for now, then in zip(ticks(), _BEGAN, strict=True)]
    stolen = (
        f", {spent[7] / max(sum(spent), 1):.0%} of their time taken by the host" if len(spent) > 7 else ""
    )
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores{stolen}"


def ticks() -> list[int]:
    """Return what all cores spent on what (the eighth is what a virtual machine's host took), where it is told."""
    told = Path("/proc/stat")
    return [int(word) for word in told.read_text().split("\n")[0].split()[1:]] if told.exists() else []


_BEGAN = ticks()


def charges(books: Ledger, name: str, number: int) -> list[float]:
    """Return the seconds that each of ``number`` charges took."""
    taken = []
    for place in range(number):
        began = time.perf_counter()
        books.reserve(
            "census",
            release_id=f"{name}-{place}",
            amount=Fraction(1, 10**6),
            product=f"product-{place % 20}",
            period="2017",
            spec_digest="s",
        )
        taken.append(time.perf_counter() - began)
    return taken


def cost(folder: Path, entries: int, number: int) -> None:
    """Charge in turns at a short and at a long chain, so that a busy machine is busy for both."""
    ledgers = {}
    for size in (1000, entries):
        ledgers[size] = open_books(long_ledger(folder, size))
    taken: dict[int, list[float]] = {size: [] for size in ledgers}
    for turn in range(10):
        for size, books in ledgers.items():
            taken[size] += charges(books, f"turn-{turn}", number // 10)
    medians = {size: statistics.median(values) * 1000 for size, values in taken.items()}
    for size, median in medians.items():
        print(f"charge at {size} earlier entries: {median:.2f} ms (median of {len(taken[size])})")
    print(f"ratio {medians[entries] / medians[1000]:.2f}; {loaded()}")
    for books in ledgers.values():
        books.close()


def long_ledger(folder: Path, size: int) -> Path:
    """Return the place of a ledger of ``size`` entries, made once for all that is asked of it."""
    place = folder / f"long-{size}"
    if not place.exists():
        place = new_place(folder, place.name)
        write_export(place / "books.txt", size)
        began = time.perf_counter()
        restore(place / "books.txt", url(place), scratch=True)
        print(f"restore of {size} entries: {time.perf_counter() - began:.0f} s", flush=True)
    return place


def verify(folder: Path, entries: int) -> None:
    place = long_ledger(folder, entries)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began, work = time.perf_counter(), time.process_time()
    verify_export(place / "books.txt")
    print(f"verify --export: {time.perf_counter() - began:.1f} s, {time.process_time() - work:.1f} s of work")
    with open_books(place) as books:
        began, work = time.perf_counter(), time.process_time()
        books.verify()
        print(f"verify: {time.perf_counter() - began:.1f} s, {time.process_time() - work:.1f} s of work")
        began = time.perf_counter()
        books.account("census"), books.periods("census"), books.products("census"), books.head()
        print(f"account, periods, products and head: {(time.perf_counter() - began) * 1000:.1f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MiB ({before:.0f} MiB before); {loaded()}", flush=True)


def kill(engine: str, under: Path | None, releases: int, kills: int) -> None:
    with tempfile.TemporaryDirectory(dir=under) as made:
        keep_witnesses(Path(made))
        began = time.perf_counter()
        print(*run_driver("kill_driver", made, engine, str(releases), str(kills), "1", patience=3600))
        print(f"{time.perf_counter() - began:.0f} s; {loaded()}")


def damage(folder: Path, entries: int, times: int) -> None:
    file, chance = folder / "books.txt", random.Random(1)
    write_export(file, entries)
    whole = file.read_bytes()
    for _ in range(times):
        changed = bytearray(whole)
        place = chance.randrange(len(whole))
        if chance.random() < 0.5:
            changed[place] ^= 1 << chance.randrange(8)
        else:
            del changed[place : place + chance.choice([1, 10, 1000, len(whole)])]
        file.write_bytes(bytes(changed))
        try:
            verify_export(file)
        except ChainBroken:
            continue
        raise AssertionError(f"damage at byte {place} was not seen")
    print(f"{times} of {times} damages were seen, in a chain of {entries} entries")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("what", nargs="+", choices=["race", "cost", "verify", "kill", "damage"])
    options.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    options.add_argument("--folder", type=Path)
    options.add_argument("--processes", type=int, default=32)
    options.add_argument("--entries", type=int)
    options.add_argument("--charges", type=int, default=300)
    options.add_argument("--releases", type=int, default=300)
    options.add_argument("--kills", type=int, default=60)
    options.add_argument("--times", type=int, default=1000)
    asked = options.parse_args()
    if "kill" in asked.what:
        kill(asked.engine, asked.folder, asked.releases, asked.kills)
        return
    with folder_for(asked.engine, asked.folder) as folder:
        for what in asked.what:
            if what == "race":
                race(folder, asked.processes)
            elif what == "cost":
                cost(folder, asked.entries or 10**6, asked.charges)
            elif what == "verify":
                verify(folder, asked.entries or 10**6)
            else:
                damage(folder, asked.entries or 20_000, asked.times)


if __name__ == "__main__":
    main()
