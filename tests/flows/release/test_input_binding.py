"""One release, one input: bound in the home, compared by every later run, and told to nobody."""

from __future__ import annotations

import shutil
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tabularium.ledger.measurement.measure_once
import tabularium.tasks.count.count
import tabularium.tasks.input_binding
import tabularium.tasks.postprocess.agreement
from tabularium.flows.release_chain import Outcome
from tabularium.ledger import Ledger, NotApproved, ReadOnly
from tabularium.ledger.keys import make_key, public_hex
from tabularium.mechanisms.errors import DataRefused, InternalError, LedgerError
from tabularium.tasks.input_binding import Claim, charging, is_bound
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tests.flows.release.scene import publish, states, write_scene

REVISED = 'revises: "a late questionnaire"\n'


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("stopped here")


def one_more(spec: Path) -> Path:
    """The input with one record more."""
    more = spec.parent / "more.csv"
    more.write_text((spec.parent / "people.csv").read_text() + "A1,30,1\n")
    return more


def stopped(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, spec: Path, home: Home) -> None:
    """Run until a function is called, and stop there as a crash would."""
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        with pytest.raises(InternalError):
            publish(spec, home)


def second_account(spec: Path, home: Home) -> Path:
    """A spec of the same input that another account pays for."""
    with Ledger.connect(home.ledger_url) as books:
        books.open_account(
            "others", unit="record", relation="add-remove", definition="pure", cap=Fraction(10)
        )
    other = spec.parent / "other.yaml"
    other.write_text(spec.read_text().replace("dataset: people", "dataset: others"))
    return other


def approve(home: Home, spec: Path, key_file: Path) -> None:
    from tabularium.tasks.runtime.run import Request, load

    with Ledger.connect(home.ledger_url) as books:
        key = make_key(key_file)
        books.enrol_key(public_hex(key), officer="A. Ro", by=key)
        books.approve("people", load(Request.of(spec, home=home.path)).digest, by=key)


def test_another_input_under_a_published_release_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a second id, or a second digest, would say whether anybody was added."""
    spec, home = write_scene(tmp_path)
    first = publish(spec, home)
    monkeypatch.setattr(tabularium.tasks.count.count, "count_tables", fail)
    with pytest.raises(DataRefused, match="another input was bound") as caught:
        publish(spec, home, source=one_more(spec))
    assert "input" not in caught.value.in_public().line()
    again = publish(spec, home)
    assert (again.status, again.release_id) == ("already published", first.release_id)
    assert states(home) == ["published"]


def test_the_name_of_a_release_does_not_depend_on_the_input_but_on_the_agency(tmp_path: Path) -> None:
    one, other = (write_scene(tmp_path / name) for name in ("one", "other"))
    one[1].secret()
    shutil.copy(one[1].path / "secret", other[1].path / "secret")
    third = write_scene(tmp_path / "third")
    names = [
        publish(*one).release_id,
        publish(*other, source=one_more(other[0])).release_id,
        publish(*third).release_id,
    ]
    assert names[0] == names[1] != names[2]


def test_a_revision_is_approved_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    plain = spec.read_text()
    spec.write_text(plain + REVISED)
    approve(home, spec, tmp_path / "officer.pem")
    with pytest.raises(LedgerError, match="nothing to revise"):
        publish(spec, home)
    spec.write_text(plain)
    first = publish(spec, home)
    spec.write_text(plain + REVISED.replace("late", "lost"))
    with pytest.raises(NotApproved, match="which revises a release"):
        publish(spec, home, source=one_more(spec))
    spec.write_text(plain + REVISED)
    revision = publish(spec, home, source=one_more(spec))
    assert revision.status == "published"
    assert revision.release_id != first.release_id
    assert '"revises": "a late questionnaire"' in (Path(revision.folder) / "certificate.json").read_text()
    with Ledger.connect(home.ledger_url) as books:
        assert {charge.revises for charge in books.charges("people")} == {None, "a late questionnaire"}
        books.verify()


def test_cut_off_between_charge_and_binding_nothing_is_bound_and_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    stopped(monkeypatch, tabularium.tasks.input_binding, "_binding", spec, home)
    assert states(home) == ["reserved"]
    assert publish(spec, home, source=one_more(spec)).status == "published"
    with pytest.raises(DataRefused, match="another input"):
        publish(spec, home)


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_being_drawn_is_drawn_from_the_input_that_was_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    spec, home = write_scene(tmp_path)
    stopped(monkeypatch, tabularium.ledger.measurement.measure_once, "measure_once", spec, home)
    with Ledger.connect(home.ledger_url) as books:
        (charge,) = books.charges("people")
        books.drawing(charge.release_id)
    if lost:
        kept = home.path / "inputs"
        kept.rename(home.path / "kept")
        with pytest.raises(LedgerError, match=r"which input it draws from.*restore .*inputs"):
            publish(spec, home)
        (home.path / "kept").rename(kept)
    with pytest.raises(DataRefused, match="another input"):
        publish(spec, home, source=one_more(spec))
    assert publish(spec, home).status == "published"


def test_what_is_measured_is_finished_although_its_binding_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read from the data any more; nothing is bound anew either, or it might be another input."""

    class Listening(NullReporter):
        heard: list[str] = []  # noqa: RUF012

        def noted(self, text: str) -> None:
            self.heard.append(text)

    spec, home = write_scene(tmp_path)
    stopped(monkeypatch, tabularium.tasks.postprocess.agreement.Agreement, "whole", spec, home)
    assert states(home) == ["measured"]
    with pytest.raises(DataRefused, match="another input"):
        publish(spec, home, source=one_more(spec))
    shutil.rmtree(home.path / "inputs")
    with reporting_to(Listening()):
        assert publish(spec, home).status == "published"
    assert any("no longer known" in text for text in Listening.heard)
    assert not (home.path / "inputs").exists()


def test_the_files_say_nothing_to_whoever_has_not_the_secret(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    names = [publish(spec, home, period=period).release_id for period in ("2026", "2027")]
    files = [path for path in (home.path / "inputs").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (home.path / "inputs").rglob("*/")} == {0o700}
    one, two = ((home.path / "inputs" / "releases" / name).read_text() for name in names)
    assert len(one) == len(two) == 64
    assert one != two, "the same input, and yet not the same digest"


def test_a_ledger_that_has_forgotten_a_bound_release_is_an_old_copy(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    shutil.rmtree(home.measurements)
    shutil.rmtree(tmp_path / "releases")  # with the heads there
    for path in home.path.glob("ledger.db*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    write_scene(tmp_path)
    with pytest.raises(ReadOnly, match="old copy"):
        publish(spec, home)


def test_one_input_is_charged_in_one_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is counted or reserved; a charge that was voided frees it."""
    spec, home = write_scene(tmp_path)
    other = second_account(spec, home)
    assert publish(spec, home).status == "published"
    with monkeypatch.context() as patch:
        patch.setattr(tabularium.tasks.count.count, "count_tables", fail)
        with pytest.raises(DataRefused, match="same input was charged in account people"):
            publish(other, home)
    assert publish(other, home, source=one_more(spec)).status == "published"


def test_where_the_other_account_protects_another_unit_both_are_named(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    other = second_account(spec, home)
    text = other.read_text().replace("dataset: others", "dataset: places")
    other.write_text(
        text.replace("unit: record", "unit: {entity: place, column: area}, max_contributions: 900")
    )
    with Ledger.connect(home.ledger_url) as books:
        books.open_account("places", unit="place", relation="add-remove", definition="pure", cap=Fraction(1))
    assert publish(spec, home).status == "published"
    with pytest.raises(DataRefused, match="account people, which protects one record and not one place"):
        publish(other, home)


def test_a_voided_charge_frees_its_input_for_the_right_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path)
    other = second_account(spec, home)
    stopped(monkeypatch, tabularium.ledger.measurement.measure_once, "measure_once", spec, home)
    with pytest.raises(DataRefused, match="same input"):
        publish(other, home)
    with Ledger.connect(home.ledger_url) as books:
        (charge,) = books.charges("people")
        books.void(charge.release_id, "charged in the wrong account")
    assert publish(other, home).status == "published"
    with pytest.raises(DataRefused, match="same input was charged in account others"):
        publish(spec, home, period="2027")


def test_of_two_accounts_at_once_one_gets_the_input(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    second_account(spec, home)
    home.secret()
    begin, ended = threading.Barrier(2), []

    def charge(account: str) -> None:
        with Ledger.connect(home.ledger_url) as books:
            begin.wait()
            try:
                claim = Claim(f"r-{account}", account, "p", "1")
                with charging(home, books, claim, "digest of the input"):
                    books.reserve(
                        account,
                        release_id=f"r-{account}",
                        amount=Fraction(1),
                        product="p",
                        period="1",
                        spec_digest="s",
                    )
            except DataRefused:
                ended.append("refused")
            else:
                ended.append(account)

    for _ in range(5):
        threads = [threading.Thread(target=charge, args=(name,)) for name in ("people", "others")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ended.count("refused") == 5
    assert len(set(ended)) == 2
    with Ledger.connect(home.ledger_url) as books:
        assert sorted(len(books.charges(name)) for name in ("people", "others")) == [0, 1]
    (winner,) = set(ended) - {"refused"}
    assert is_bound(home, f"r-{winner}", "digest of the input")
    assert is_bound(home, f"r-{winner}", "digest of another") is False


def test_a_found_release_is_compared_too(tmp_path: Path) -> None:
    """Where a Prefect server is to run it, a release that is published is found without one."""
    from tabularium.flows.release_chain import find_published
    from tabularium.tasks.runtime.run import Request, load

    spec, home = write_scene(tmp_path)
    request = Request.of(spec, home=home.path)
    (tmp_path / "people.csv").rename(tmp_path / "kept.csv")
    assert find_published(request, load(request)) is None, "no data are read where nothing is published"
    (tmp_path / "kept.csv").rename(tmp_path / "people.csv")
    first: Outcome = publish(spec, home)
    found = find_published(request, load(request))
    assert found is not None
    assert found.folder == first.folder
    more = Request.of(spec, str(one_more(spec)), home=home.path)
    with pytest.raises(DataRefused, match="another input"):
        find_published(more, load(more))
