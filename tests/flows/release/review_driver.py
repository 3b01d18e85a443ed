"""Kill what lays out or accepts a draft at the n-th durable event, for every n, then go on and look at the bytes.

    python -m tests.flows.release.review_driver FOLDER draft|acceptance FIRST STEP

After a kill of an acceptance at an odd event the officer's command is called again; after one at an even
event a plain run goes on, where the acceptance stood already. Durable events are those of ``crash_driver``, and
for an acceptance every file that is copied or removed.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

from tabularium.flows.cli.ledger.approvals import accept
from tabularium.ledger import AwaitingReview, Ledger
from tabularium.ledger.keys import read_private
from tabularium.tasks.publish.period_index import CURRENT, INDEX
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.sign.statement import STATEMENT
from tests.flows.release.crash_driver import Bomb, import_ahead, in_child, kill_at, run_once
from tests.flows.release.scene import let_sign, require_signed
from tests.flows.release.test_reviewed import RULE, bytes_in, write_reviewed


class LouderBomb(Bomb):
    def arm(self) -> None:
        super().arm()
        self.around(shutil, "copyfile", after=False)
        self.around(os, "unlink", after=False)
        self.around(os, "rmdir", after=False)


def decide(release: str, key: Path, home: Home) -> None:
    accept(release, key, home=home.path)


def go_on(spec: Path, home: Home, key: Path, release: str, at: int) -> None:
    with Ledger.connect(home.ledger_url) as books:
        draft = books.draft(release)
    if at % 2 == 0:
        try:
            outcome = run_once(spec, home)
        except AwaitingReview:
            assert draft is not None and not draft.accepted, "it waits only if the acceptance was not written"
        else:
            assert outcome.release_id == release
            return
    decide(release, key, home)


def check(folder: Path, home: Home, release: str, laid_out: dict[str, bytes], *, swept: bool) -> None:
    published = folder / "releases" / "small" / "2026"
    there = {path.name for path in published.iterdir()}
    assert there == {release, CURRENT, INDEX}, "one release and no remains"
    signed = bytes_in(published / release)
    assert STATEMENT in signed
    assert {name: raw for name, raw in signed.items() if name != STATEMENT} == laid_out, "the draft's bytes"
    if swept:
        assert not (folder / "drafts" / "small" / "2026" / release).exists(), "the draft is removed"
    with Ledger.connect(home.ledger_url) as books:
        books.verify()
        assert books.balance("people") == 9
        charges = books.charges("people")
        assert [charge.state for charge in charges] == ["published", "published"]
        kinds = [entry.body["kind"] for entry in books.entries()]
    assert kinds.count("acceptance") == 1
    (main,) = (charge for charge in charges if charge.release_id == release)
    require_signed(home, published / release, main)
    assert (home.measurements / release / STATEMENT).read_bytes() == signed[STATEMENT]


def lay_out(spec: Path, home: Home) -> None:
    try:
        run_once(spec, home)
    except AwaitingReview:
        return
    raise AssertionError


def laid_out_in(folder: Path) -> tuple[str, dict[str, bytes]]:
    """The one draft that there is: its release, and its bytes."""
    (draft,) = (folder / "drafts" / "small" / "2026").iterdir()
    return draft.name, bytes_in(draft)


def main(place: Path, what: str, at: int, step: int) -> None:
    import_ahead(place / "ahead")
    folder, saved = place / "scene", place / "saved"
    spec, home, key = write_reviewed(folder, rules=RULE)
    let_sign(home, read_private(key))
    if what == "acceptance":
        assert in_child(partial(lay_out, spec, home)) == 0
        release, laid_out = laid_out_in(folder)
        (folder / "people.csv").unlink()
    shutil.copytree(folder, saved)
    while True:
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
        os.environ["TABULARIUM_WITNESS"] = str(place / f"witnesses-{at}")
        if what == "acceptance":
            last = kill_at(LouderBomb(at, folder / "events"), partial(decide, release, key, home))
        else:
            last = kill_at(Bomb(at, folder / "events"), partial(lay_out, spec, home))
        if last is None:
            break
        if what == "acceptance":
            after = in_child(partial(go_on, spec, home, key, release, at))
            # A run finds what is published and leaves the rest of a draft to the officer's command.
            swept = at % 2 == 1
        else:
            after, swept = in_child(partial(lay_out, spec, home)), True
            release, laid_out = laid_out_in(folder)
            assert in_child(partial(decide, release, key, home)) == 0
        assert after == 0, f"after a kill at {last}"
        check(folder, home, release, laid_out, swept=swept)
        print(f"killed at {last}: the draft's bytes, once", flush=True)
        at += step
    print(f"finished: no event {at}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
