"""What an officer sees at the desk and signs there, over HTTP: the ledger has it, once, as it was shown."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from pathlib import Path

import pytest

import tabularium
from tabularium.flows.desk.draft_page import _targets
from tabularium.ledger.keys import key_id, make_key, public_hex, read_private
from tabularium.ledger.names import LONGEST_TEXT
from tabularium.mechanisms.errors import LedgerError
from tests.flows.desk.desk_scene import Browser, Place, words_of
from tests.flows.release.scene import write_scene
from tests.tasks.publish.certificate.samples import YEARS

pytestmark = pytest.mark.xdist_group("desk")
DRAFT = {"consulted": "no"}
CRITERION = {"criterion": "implausible"}


def digest_of(place: Place) -> str:
    with place.ledger() as books:
        draft = books.draft(place.draft)
        assert draft is not None
        return draft.digest


def state(place: Place, release: str) -> str:
    with place.ledger() as books:
        charge = books.charge(release)
        assert charge is not None
        return charge.state


def approval(place: Place, browser: Browser, **more: str) -> dict[str, str]:
    """Return the fields of the form that approves the spec for 2027, as its page has them."""
    shown = browser.client.get("/approve", params={"spec": str(place.spec), "period": "2027"})
    digest = re.search(r'name="digest" value="(\w+)"', shown.text)
    assert digest is not None
    return {"spec": str(place.spec), "period": "2027", "digest": digest[1], **more}


def test_what_is_shown_is_what_is_signed(place: Place) -> None:
    browser = Browser(place, place.key)
    page = browser.page(f"/approve?spec={place.spec}&period=2027")
    assert "small, 2027" in page and "Left before 7 of 10 Left after 6" in page
    assert "area × age × sex" in page and "max_rejected: no record was rejected" in page
    assert "publication.review" in page, "the last release had no review"
    assert "may withhold it for: " in page and "the draft then waits here" in page
    asked = approval(place, browser, reason="the table of last year")
    shown = browser.send("/approve", **asked)
    assert "Remark: the table of last year" in words_of(shown)
    data = re.search(r'<pre class="bytes">(.*?)</pre>', shown.text)
    assert data is not None
    signed = json.loads(data[1].replace("&#34;", '"'))
    assert (signed["kind"], signed["amount"], signed["reason"]) == ("approval", "1/1", asked["reason"])
    said = browser.sign("/approve", **asked)
    assert said.startswith("Decided small 2027 is approved, for at most 1.")
    with place.ledger() as books:
        (entry,) = books.last_entries(1)
        books.verify()
    assert {name: entry.body[name] for name in signed if name in entry.body} == {
        name: value for name, value in signed.items() if name in entry.body
    }
    assert "It is approved already, by A. Ro" in browser.page(f"/approve?spec={place.spec}&period=2027")
    place.spec.write_text(place.spec.read_text().replace('"1": male', '"1": "男 <1>"'), encoding="utf-8")
    assert '"男 <1>"' in browser.page(f"/approve?spec={place.spec}"), "what differs is shown as it is written"


def test_a_spec_that_changed_since_it_was_looked_at_is_not_signed(place: Place) -> None:
    browser, before = Browser(place, place.key), place.entries()
    asked = approval(place, browser)
    text = place.spec.read_text()
    place.spec.write_text(text.replace('budget: "1"', 'budget: "2"'))
    assert "the spec has changed since it was looked at" in browser.sign("/approve", **asked)
    place.spec.write_text(text)
    signed = browser.send("/approve", **asked)
    hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', signed.text))
    with place.ledger() as books:  # another officer's decision comes between looking and signing
        books.approve("people", asked["digest"], by=read_private(place.key, None))
    said = browser.send("/approve", **{**asked, "signed": hidden["signed"]})
    assert "not what was shown" in said.text and "Nothing was signed" in said.text
    assert place.entries() == before + 1


def test_what_cannot_be_known_is_not_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key has signed before; whether it did so now nobody can say whose ledger did not answer."""
    browser, address = Browser(place, place.key), f"/drafts/{place.draft}/accept"
    browser.sign("/approve", **approval(place, browser))
    shown = browser.send(address, draft=digest_of(place), **DRAFT)
    signed = dict(re.findall(r'name="(\w+)" value="([^"]*)"', shown.text))["signed"]
    real, asked = tabularium.Books.last_entry.fget, []  # type: ignore[attr-defined]

    def away_once(books: tabularium.Books) -> int:
        asked.append(books)
        if len(asked) == 1:
            raise LedgerError("does not answer", where="the ledger", hint="start it")
        number: int = real(books)
        return number

    monkeypatch.setattr(tabularium.Books, "last_entry", property(away_once))
    said = words_of(browser.send(address, draft=digest_of(place), signed=signed))
    assert "was not answered" in said and "signed" not in said


def test_what_cannot_be_paid_is_not_signed_by_mistake(place: Place) -> None:
    place.spec.write_text(place.spec.read_text().replace('budget: "1"', 'budget: "9"'))
    browser, before = Browser(place, place.key), place.entries()
    page = browser.page(f"/approve?spec={place.spec}&period=2027")
    assert "Account people cannot pay for this: ε = 7 of 10 is left" in page
    asked = approval(place, browser)
    assert "Left after nothing: it costs 2 more than is left" in page
    refused = browser.send("/approve", **asked).text
    assert "cannot pay the 9 that it costs" in refused
    assert (
        browser.client.get(html.unescape(re.findall(r'href="(/approve[^"]*)"', refused)[0])).status_code
        == 200
    )
    assert place.entries() == before
    assert "is approved, for at most 9" in browser.sign("/approve", **asked, even_if_unpaid="yes")
    with place.ledger() as books:
        books.close_account("people", reason="the last of its kind")
    page = browser.page(f"/approve?spec={place.spec}&period=2027")
    assert "Account people cannot pay for this: it takes no charges any more. " in page


def test_a_draft_is_accepted_with_what_was_seen(place: Place) -> None:
    browser = Browser(place, place.key)
    assert "At least 1 thing waits for a person" in browser.page("/"), "no Prefect is known here"
    page = browser.page(f"/drafts/{place.draft}")
    assert re.search(r"area_age_sex, nation ±1,000 widest \S+; 6 of 6 cells within met", page), (
        "of the nation's cells alone"
    )
    assert re.search(r"area_age_sex ±1,000 widest \S+; 36 of 36 cells within met", page) and "missed" in page
    assert "Compared with 2025." in page and "biases the series" in page
    fields = {"draft": digest_of(place)}
    said = browser.send(f"/drafts/{place.draft}/accept", **fields)
    assert "was not answered" in said.text and f'href="/drafts/{place.draft}">Go back' in said.text
    assert "Draft since" in page and "Accepted 20" not in page
    for address, more in (
        (f"/drafts/{place.draft}/accept", {}),
        (f"/drafts/{place.draft}/withhold", CRITERION),
    ):
        assert "another draft of it was laid out" in browser.sign(address, **DRAFT, **more), "it names none"
    assert state(place, place.draft) == "measured"
    said = browser.sign(f"/drafts/{place.draft}/accept", **fields, **DRAFT)
    assert f"Release {place.draft} is accepted. Published: " in said
    assert state(place, place.draft) == "published"
    assert "It was about small, 2026" in said
    assert "Nothing is known to wait for a person" in browser.page("/")
    assert re.search(
        rf"draft accepted people release {place.draft}, draft \w+ small, 2026", browser.page("/history")
    )


def test_a_draft_is_withheld_for_a_criterion_and_nobody_is_asked_again(place: Place) -> None:
    browser = Browser(place, place.key)
    fields = {"draft": digest_of(place), "consulted": "yes"}
    address = f"/drafts/{place.draft}/withhold"
    assert "names no criterion" in browser.sign(address, **fields)
    assert "Nothing was signed" in browser.sign(address, **fields, criterion="surprising")
    assert state(place, place.draft) == "measured"
    assert "is withheld; its budget stays spent" in browser.sign(address, **fields, criterion="implausible")
    assert state(place, place.draft) == "withheld"
    assert "outside the guarantee" in browser.page("/history")
    page = browser.page(f"/drafts/{place.draft}")
    assert "It was decided: withheld" in page and "not on this machine" not in page


def test_a_second_officer_is_too_late(place: Place) -> None:
    first, second = Browser(place, place.key), Browser(place, place.second_officer())
    fields = {"draft": digest_of(place), **DRAFT}
    shown = second.send(f"/drafts/{place.draft}/accept", **fields)
    hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', shown.text))
    first.sign(f"/drafts/{place.draft}/withhold", **fields, criterion="implausible")
    before = place.entries()
    said = second.send(f"/drafts/{place.draft}/accept", **{**fields, "signed": hidden["signed"]})
    assert said.status_code == 400
    assert "Nothing was signed" in said.text
    assert "It was decided: withheld" in second.page(f"/drafts/{place.draft}")
    assert place.entries() == before


def test_who_is_too_late_is_not_told_that_another_decision_of_the_same_key_is_his(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(place, place.key)
    signs_only = tabularium.Officer.signs_only

    def late(officer: tabularium.Officer, data: bytes) -> tabularium.Officer:
        tabularium.officer(place.home.path, key=place.key).withhold(place.draft, criterion="implausible")
        return signs_only(officer, data)

    monkeypatch.setattr(tabularium.Officer, "signs_only", late)
    said = browser.sign(f"/drafts/{place.draft}/accept", draft=digest_of(place), **DRAFT)
    assert "is withheld and cannot become published" in said and "Nothing was signed." in said


def test_an_accepted_draft_that_could_not_be_published_waits_until_it_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, address = Browser(place, place.key), f"/drafts/{place.draft}"
    fields = {"draft": digest_of(place), **DRAFT}

    def full(*_given: object, **_named: object) -> None:
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")])

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", full)
        said = browser.sign(f"{address}/accept", **fields)
    assert "No space left on device" in said and "The decision is signed" in said
    page = browser.page("/")
    assert "Accepted, not published" in page and f"tabularium ledger accept {place.draft} --key FILE" in page
    before = place.entries()
    page = browser.client.get(address).text
    assert "Nothing was signed" not in page and "Publish it" in page and "Accept…" not in page
    assert "Published: " in words_of(browser.send(f"{address}/accept", **fields))
    assert state(place, place.draft) == "published" and place.entries() == before + 1
    assert "Nothing is known to wait" in browser.page("/")


def test_a_reason_is_as_long_as_the_ledger_takes(place: Place) -> None:
    browser = Browser(place, place.key)
    for address in (f"/approve?spec={place.spec}", f"/releases/{place.published}"):
        (longest,) = re.findall(r'name="reason"[^>]* maxlength="(\d+)"', browser.client.get(address).text)
        assert int(longest) == LONGEST_TEXT


def test_who_decides_as_was_decided_before_signs_nothing_and_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Browser(place, place.key), Browser(place, place.second_officer())
    address, fields = f"/drafts/{place.draft}/accept", {"draft": digest_of(place), **DRAFT}
    hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', second.send(address, **fields).text))
    first.sign(address, **fields)
    before = place.entries()
    said = words_of(second.send(address, **{**fields, "signed": hidden["signed"]}))
    assert said.startswith(f"Decided before Nothing was signed now. Release {place.draft} is accepted.")
    assert place.entries() == before
    assert "is not being drawn: published" in first.page(f"/attempts/{place.draft}", 400)
    monkeypatch.setattr("tabularium.flows.desk.desk.Desk.signed_since", lambda *_: None)  # nobody can say
    page = words_of(second.send(address, **{**fields, "signed": hidden["signed"]}))
    assert page.startswith("Decided Whether it was signed just now, or before, could not be read")


def test_two_officers_sign_where_two_must(place: Place) -> None:
    second = Browser(place, place.second_officer())
    with place.ledger() as books:
        books.change_account("people", reason="two", approvals=2, by=read_private(place.key, None))
    first, fields = Browser(place, place.key), {"draft": digest_of(place), **DRAFT}
    address = f"/drafts/{place.draft}/accept"
    assert "1 of 2 officers have accepted it" in first.sign(address, **fields)
    assert state(place, place.draft) == "measured"
    assert "1 of 2 officers have signed: A. Ro" in second.page("/")
    assert "2 officers must accept it. 1 of 2 have: A. Ro" in second.page(f"/drafts/{place.draft}")
    assert "Published" in second.sign(address, **fields)
    asked = approval(place, first)
    assert "1 of 2 officers have approved small 2027" in first.sign("/approve", **asked)
    assert "is approved, for at most 1" in second.sign("/approve", **asked)


def test_a_release_is_verified_and_withdrawn(place: Place) -> None:
    browser = Browser(place, place.key)
    address = f"/releases/{place.published}"
    browser.send(f"{address}/verify")
    while "It has gone on for" in (page := browser.page(address)):
        pass
    assert " 0 failed" in page
    said = browser.sign(f"{address}/withdraw", reason="a region was coded twice")
    assert f"Release {place.published} is withdrawn" in said
    assert "withdrawn: a region was coded twice" in browser.page(address)
    (folder,) = (place.spec.parent / "releases" / "small" / "2025").glob("[0-9a-f]*")
    (folder / "certificate.json").chmod(0o600)
    (folder / "certificate.json").write_text("{")
    browser.send(f"{address}/verify")
    while "It has gone on for" in (page := browser.page(address)):
        pass
    assert "It could not be verified" in page


def test_accounts_say_what_is_left_and_what_one_entity_has_lost(place: Place) -> None:
    browser = Browser(place)
    page = browser.page("/accounts")
    assert "ε = 7 of 10 is left, enough for 7 more periods at 1" in page
    assert "One record of people" in page and "ε = 3 plainly summed" in page
    page = browser.page("/accounts/people")
    assert "By product" in page and "By period" in page and "draft, to review" in page
    assert "no such account" in browser.page("/accounts/nobody", 400)


def test_without_a_key_it_shows_the_command_and_signs_nothing(place: Place) -> None:
    browser, before = Browser(place), place.entries()
    page = browser.page(f"/drafts/{place.draft}")
    assert f"tabularium ledger accept {place.draft} --key FILE" in page
    said = browser.send(f"/drafts/{place.draft}/accept", draft=digest_of(place), **DRAFT)
    assert "nobody signs here" in said.text
    assert place.entries() == before


def test_a_passphrase_is_asked_for_and_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabularium.flows.desk.desk._PAUSE_SECONDS", 0)
    file = place.key.with_name("locked.pem")
    key = make_key(file, b"open sesame")
    with place.ledger() as books:
        books.enrol_key(public_hex(key), officer="C. Lock", by=read_private(place.key, None))
    browser = Browser(place, file, idle=60)
    assert "Passphrase of locked.pem" in browser.page(f"/drafts/{place.draft}")
    assert "error" not in browser.page("/")
    said = browser.send("/unlock", passphrase="wrong", back=f"/drafts/{place.draft}")
    assert said.status_code == 400 and "wrong" not in said.text.replace("is wrong", "")
    assert f'href="/drafts/{place.draft}">Go back' in said.text
    said = browser.send("/unlock", passphrase="open sesame", back=f"/drafts/{place.draft}")
    assert said.url.path == f"/drafts/{place.draft}" and "Accept…" in said.text
    assert browser.send("/unlock", passphrase="open sesame", back="//evil.example").url.path == "/"
    assert browser.key is not None
    browser.key._used -= 61  # a minute has passed
    file.rename(file.with_name("away.pem"))
    assert "is there no more" in browser.send("/unlock", passphrase="open sesame").text
    assert "Passphrase of locked.pem" in browser.page(f"/drafts/{place.draft}")
    assert "open sesame" not in str(vars(browser.key)) + str(vars(browser.desk))
    browser.send("/unlock", passphrase="open sesame", back="/")
    until = time.monotonic() + 30
    while browser.key._opened is not None:  # nobody asks for it
        assert time.monotonic() < until, "a key that nobody uses stays in memory"
        time.sleep(0.05)


def test_a_revoked_key_and_a_ledger_that_is_read_only_sign_nothing(place: Place) -> None:
    browser, fields = Browser(place, place.key), {"draft": digest_of(place), **DRAFT}
    second = place.second_officer()
    with place.ledger() as books:
        revoked = key_id(public_hex(read_private(place.key, None)))
        books.revoke_key(revoked, reason="lost", by=read_private(second, None))
    before = place.entries()
    said = browser.sign(f"/drafts/{place.draft}/accept", **fields)
    assert "is not enrolled, or was revoked" in said
    assert place.entries() == before


def test_a_draft_that_was_altered_is_neither_shown_nor_accepted(place: Place) -> None:
    browser = Browser(place, place.key)
    fields = {"draft": digest_of(place), **DRAFT}
    (table,) = (place.spec.parent / "drafts" / "small" / "2026" / place.draft).glob("age_sex.csv")
    table.chmod(0o600)
    table.write_bytes(table.read_bytes().replace(b"1", b"2"))
    assert "cannot be shown" in browser.page(f"/drafts/{place.draft}")
    assert "age_sex.csv" in browser.page(f"/drafts/{place.draft}/report.html", 400), "whatever file it is"
    before = place.entries()
    assert "Nothing was signed" in browser.sign(f"/drafts/{place.draft}/accept", **fields)
    assert place.entries() == before


def test_an_officer_elsewhere_sees_a_copy_and_signs(place: Place, tmp_path: Path) -> None:
    """The home is not there: the ledger is reached by its address, drafts lie in a copy of their folder."""
    place.spec.parent.joinpath("drafts").rename(tmp_path / "copied")
    browser = Browser(place, place.key)
    assert "are not on this machine" in browser.page(f"/drafts/{place.draft}")
    browser.desk.folders = (tmp_path / "copied",)
    assert "Compared with 2025." in browser.page(f"/drafts/{place.draft}")
    said = browser.sign(f"/drafts/{place.draft}/accept", draft=digest_of(place), **DRAFT)
    assert f"Release {place.draft} is accepted." in said and "Published" not in said
    with place.ledger() as books:
        draft = books.draft(place.draft)
        assert draft is not None and draft.accepted


def test_what_this_home_laid_out_is_published_here_though_its_folder_is_named_as_a_copy(place: Place) -> None:
    browser = Browser(place, place.key)
    browser.desk.folders = (place.spec.parent / "drafts",)
    said = browser.sign(f"/drafts/{place.draft}/accept", draft=digest_of(place), **DRAFT)
    assert "Published: " in said
    assert state(place, place.draft) == "published"


def test_to_sign_writes_nothing_and_a_held_officer_signs_nothing_else(place: Place) -> None:
    officer = tabularium.officer(place.home.path, key=place.key)
    books, before = tabularium.open_ledger(place.home.path), place.entries()
    decisions = [books.decision(place.spec, period=period) for period in ("2027", "2028")]
    data = officer.to_sign(lambda one: one.approve(decisions[0]))
    assert data is not None and place.entries() == before
    held = officer.signs_only(data)
    with pytest.raises(tabularium.NotAsShown, match="not what was shown"):
        held.approve(decisions[1])
    assert place.entries() == before
    held.approve(decisions[0])
    assert officer.to_sign(lambda one: one.approve(decisions[0])) is None
    assert place.entries() == before + 1


def test_no_file_but_yaml_is_read_for_a_spec(place: Place) -> None:
    browser, path = Browser(place, place.key), place.spec.with_name("drop.json")
    path.write_text('{"product": "planted"}')
    page = browser.page(f"/approve?spec={path}", 400)
    assert "is no YAML file by its name" in page and "planted" not in page


def test_targets_are_held_against_the_cells_that_they_are_about(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    text = spec.read_text().replace("releases}", 'releases, quality: {unreliable: "30%"}}')
    table = '    dimensions: [age, sex]\n    share: "1/3"\n'
    targets = """\
targets:
  - {table: area_age_sex, level: province, unreliable: "100%"}
  - {table: area_age_sex, level: place, unreliable: "0%"}
  - {table: age_sex, measure: mean_age, margin: 99, at: 100}
  - {table: age_sex, measure: mean_age, margin: 99, at: 100000}
"""
    assert table in text
    spec.write_text(text.replace(table, table + YEARS) + targets)
    tabularium.publish(spec, home=home.path)
    release = tabularium.open(tmp_path / "releases" / "small" / "2026" / "current")
    loose, strict, large, none = _targets(release)
    cells = release["area_age_sex"].to_pandas(level=["province", "place"])
    flagged = cells.groupby("level", observed=True)["quality"].apply(
        lambda each: (each == "unreliable").sum()
    )
    assert loose.stated == f"{flagged['province']} of 12 cells unreliable" and loose.met
    assert strict.stated == f"{flagged['place']} of 18 cells unreliable" and strict.met is (
        not flagged["place"]
    )
    some = release["age_sex"].to_pandas()
    number = int(some.loc[some["count"] >= 100, "mean_age_margin"].notna().sum())
    assert 0 < number < len(some)
    assert large.stated.endswith(f" of {number} cells within")
    assert (none.stated, none.met) == ("nothing", None)
