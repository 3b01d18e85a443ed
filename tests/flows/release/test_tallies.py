"""Noisy rules and the number of cut units, through the whole chain: what they cost, when, and how often."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

import tabularium.tasks.count.count
import tabularium.tasks.measure
from tabularium.flows.release_chain import Outcome
from tabularium.ledger import BudgetExhausted, Charge, Ledger
from tabularium.mechanisms.accounting import Event, PrivacyLoss
from tabularium.mechanisms.errors import InternalError, PublicationError, TabulariumError
from tabularium.tasks.publish.release_folder import certificate_in
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.report.registry_entry import registry_entry
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tests.flows.release.scene import Before, publish, publish_with, write_scene
from tests.tasks.report.reported import lines

pytestmark = pytest.mark.xdist_group("tallies")

ROWS = 600
FAR = 40  # of noise of scale 1: not in 10^17 draws


def noisy(fields: str, share: str = "1/10") -> str:
    return f'[{{rule: row_count, {fields}, noisy: {{share: "{share}"}}}}]'


def charges(home: Home) -> list[Charge]:
    with Ledger.connect(home.ledger_url) as books:
        return list(books.charges("people"))


def balance(home: Home) -> Fraction:
    with Ledger.connect(home.ledger_url) as books:
        return books.balance("people")


def certificate(outcome: Outcome) -> dict[str, Any]:
    """What a reader without the ledger finds consistent in itself."""
    return verify_certificate(Path(outcome.folder) / "certificate.json").document()


def fewer(spec: Path, rows: int) -> Path:
    """The first ``rows`` records."""
    path = spec.parent / f"{rows}.csv"
    lines = (spec.parent / "people.csv").read_text().splitlines()
    path.write_text("\n".join(lines[: rows + 1]) + "\n")
    return path


def total_loss(found: dict[str, Any], group: int) -> Fraction:
    """What the transcript adds up to for one unit."""
    events = [Event.from_dict(event) for event in found["transcript"]]
    definition = events[0].definition
    return PrivacyLoss(sum((e.loss for e in events), Fraction()), definition).for_unit(group).amount


def test_a_noisy_rule_is_a_charge_of_its_own_and_both_cost_the_budget(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="10", rules=noisy("min: 500, max: 700"))
    found = certificate(publish(spec, home))
    first, main = sorted(charges(home), key=lambda charge: charge.amount)
    assert (first.amount, main.amount, balance(home)) == (1, 9, 0)
    assert first.state == main.state == "published"
    assert first.publication_digest == main.publication_digest
    assert found["privacy"]["epsilon"] == "10"
    assert found["ledger"]["amount"] == "9"
    (listed,) = found["ledger"]["tally_charges"]
    assert listed == {"number": 1, "release_id": first.release_id, "amount": "1", "attempts": 1}
    (tally,) = found["tallies"]
    assert (tally["of"], tally["counts"], tally["broken"], tally["scale"]) == (
        "row_count",
        "records",
        [],
        1.0,
    )
    assert abs(tally["number"] - ROWS) < FAR
    assert found["transcript"][0]["purpose"] == "tally of row_count"
    assert total_loss(found, 1) == 10
    assert found["tables"]["age_sex"]["counted"] == "every record"


def test_a_rule_that_fails_has_spent_its_share_once_and_nothing_else(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("min: 550", share="1/4"))
    short = fewer(spec, 300)
    said = []
    for _ in range(2):
        with pytest.raises(TabulariumError, match=r"rule row_count: .* is below 550") as caught:
            publish(spec, home, source=short)
        said.append(str(caught.value))
    assert said[0] == said[1], "the number is never drawn again"
    (spent,) = charges(home)
    assert (spent.state, spent.fence, spent.amount, balance(home)) == ("measured", 1, 1, 9)
    # The mended input is another one, and pays again; the release then costs both.
    outcome = publish(spec, home)
    found = certificate(outcome)
    assert balance(home) == 10 - 1 - 4
    assert [(each["number"], each["amount"]) for each in found["ledger"]["tally_charges"]] == [
        (1, "1"),
        (2, "1"),
    ]
    assert found["privacy"]["epsilon"] == "5"
    assert found["validation"]["rules"][0]["charged"] == "2"
    entry = registry_entry(certificate_in(Path(outcome.folder))[1])
    said = yaml.safe_load(entry)["deployment"]["implementation"]
    assert "- row_count: epsilon = 2 for one record, in 2 tries\n" in said["composition"]
    assert "- row_count: a noisy count, drawing discrete laplace, in 2 tries\n" in said["mechanisms"]
    page = lines((Path(outcome.folder) / "report.html").read_bytes())
    assert {"used before: 0", "this release: 5", "left: 5"} <= set(page)
    assert any("2 inputs were tried" in fact["what"] for fact in found["outside_the_guarantee"])
    assert sorted(charge.state for charge in charges(home)) == ["measured", "published", "published"]


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("tallies", "scale", 0.5),
        ("tallies", "margin", 0),
        ("tallies", "loss", "1/2"),
        ("tallies", "counts", "units"),
        ("tally_charges", "amount", "1/2"),
        ("transcript", "loss", "1/2"),
        ("transcript", "purpose", "age_sex/cells"),
    ],
)
def test_what_is_said_of_a_tally_cannot_be_edited(
    tmp_path_factory: pytest.TempPathFactory, release: Path, section: str, key: str, value: object
) -> None:
    found = json.loads(release.read_text())
    ({**found, **found["ledger"]})[section][0][key] = value
    path = tmp_path_factory.mktemp("forged") / "certificate.json"
    path.write_text(json.dumps(found))
    with pytest.raises(PublicationError, match=r"does not (fit|cost)|adds up"):
        verify_certificate(path)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = write_scene(tmp_path_factory.mktemp("release"), budget="10", rules=noisy("min: 1"))
    return Path(publish(spec, home).folder) / "certificate.json"


def test_a_rule_that_warns_is_told_to_readers_too(tmp_path: Path) -> None:
    class Heard(NullReporter):
        notes: list[str] = []  # noqa: RUF012

        def noted(self, text: str) -> None:
            self.notes.append(text)

    spec, home = write_scene(tmp_path, budget="10", rules=noisy("max: 10, severity: warn"))
    with reporting_to(Heard()):
        (tally,) = certificate(publish(spec, home))["tallies"]
    assert tally["broken"] == ["row_count"]
    assert any("is above 10" in note and "only warns" in note for note in Heard.notes)


@pytest.mark.parametrize("before", ["noisy", "exact"])
def test_change_from_last_compares_with_what_was_published(tmp_path: Path, before: str) -> None:
    """A year with 600 records, then one with 300, whose change no exact number is compared for."""
    rules = noisy('change_from_last: "20%"')
    spec, home = write_scene(tmp_path, budget="4", cap="100", rules=rules if before == "noisy" else "[]")
    outcome = publish(spec, home)
    first = certificate(outcome)
    spec.write_text(spec.read_text().replace("rules: []", f"rules: {rules}"))
    known, folder = len(charges(home)), Path(outcome.folder)
    folder.rename(tmp_path / "moved")
    with pytest.raises(PublicationError, match="published for 2026, and that release is missing"):
        publish(spec, home, source=fewer(spec, 300), period="2027")
    assert len(charges(home)) == known, "nothing is drawn before it is known what to compare with"
    (tmp_path / "moved").rename(folder)
    last = first["tallies"][0]["number"] if before == "noisy" else first["tables"]["area_age_sex"]["total"]
    with pytest.raises(TabulariumError, match=f"change_from_last.*not within 20 % of the {last} published"):
        publish(spec, home, source=fewer(spec, 300), period="2027")
    assert publish(spec, home, source=fewer(spec, 590), period="2027").status == "published"


def test_a_rule_that_held_is_not_judged_again_when_another_period_was_published_since(tmp_path: Path) -> None:
    """550 records, then 600 within 20 %; before these are published come 460, which 600 are not within 20 % of."""

    def stop() -> None:
        raise RuntimeError

    spec, home = write_scene(tmp_path, budget="4", cap="100", rules=noisy('change_from_last: "20%"'))
    publish(spec, home, source=fewer(spec, 550), period="2026-Q2")
    with pytest.raises(InternalError), reporting_to(Before(name="publish", work=stop)):
        publish(spec, home, period="2026-Q4")
    publish(spec, home, source=fewer(spec, 460), period="2026-Q3")
    (tally,) = certificate(publish(spec, home, period="2026-Q4"))["tallies"]
    assert tally["broken"] == []


def test_without_budget_for_both_nothing_is_counted_or_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, home = write_scene(tmp_path, budget="4", cap="39/10", rules=noisy("min: 1"))
    monkeypatch.setattr(tabularium.tasks.count.count, "count_tables", None)
    with pytest.raises(BudgetExhausted, match="with its tallies costs 4"):
        publish(spec, home)
    assert not charges(home)


def test_a_run_that_ends_between_the_charges_goes_on_with_the_number_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account holds just enough: a second tally, or the budget asked for twice, would be refused."""
    spec, home = write_scene(tmp_path, budget="4", cap="4", rules=noisy("min: 1"))

    def stop() -> None:
        raise RuntimeError

    with pytest.raises(InternalError):
        publish_with(stop, before="reserve budget", spec=spec, home=home)
    (before,) = charges(home)
    assert before.state == "measured"
    monkeypatch.setattr(tabularium.tasks.measure, "draw_tally", None)
    with pytest.raises(InternalError):
        publish_with(stop, before="publish", spec=spec, home=home)
    monkeypatch.setattr(
        tabularium.tasks.count.count, "count_tables", None
    )  # all is drawn: the data stay closed
    publish(spec, home)
    after = {charge.release_id: charge for charge in charges(home)}[before.release_id]
    assert (after.fence, after.measurement_digest) == (1, before.measurement_digest)
    assert after.state == "published"
    assert balance(home) == 0


def households(folder: Path, relation: str, definition: str, cut: str = "1/10") -> tuple[Path, Home]:
    """Two hundred persons, of whom the k-th has 1 + k % 5 records and at most 3 are counted."""
    spec, home = write_scene(folder, rows=0, budget="10", rules=noisy("min: 1"))
    rows = [f"{'A1' if k % 2 else 'B1'},{k % 100},1,p{k}" for k in range(200) for _ in range(1 + k % 5)]
    (folder / "people.csv").write_text("area,age,sex,person\n" + "\n".join(rows) + "\n")
    extra = 'definition: zcdp, delta: "1/1000000", ' if definition == "zcdp" else ""
    spec.write_text(
        spec.read_text()
        .replace("dataset: people", "dataset: persons")
        .replace(
            "unit: record, relation: add-remove,",
            f"unit: {{column: person}}, max_contributions: 3, relation: {relation}, {extra}"
            f'cut_units: {{share: "{cut}", records_up_to: 2}},',
        )
    )
    with Ledger.connect(home.ledger_url) as books:
        delta = Fraction(1, 10**6) if extra else None
        books.open_account(
            "persons", unit="person", relation=relation, definition=definition, cap=Fraction(10), delta=delta
        )
    return spec, home


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize(("relation", "group"), [("add-remove", 3), ("replace", 6)])
def test_units_are_tallied_with_the_noise_of_one_unit(
    tmp_path: Path, relation: str, group: int, definition: str
) -> None:
    """Persons of 4 and 5 records lose 1 and 2: 80 of 200 persons, 120 records. The noise is that of one person."""
    spec, home = households(tmp_path, relation, definition)
    found = certificate(publish(spec, home))
    rows, cut, left_out = found["tallies"]
    assert [(each["of"], each["counts"]) for each in found["tallies"]] == [
        ("row_count", "units"),
        ("cut_units", "units"),
        ("records left out", "records"),
    ]
    assert abs(rows["number"] - 200) < FAR
    assert abs(cut["number"] - 80) < FAR
    assert abs(left_out["number"] - 120) < 2 * FAR
    assert left_out["scale"] == 2 * cut["scale"]
    assert rows["scale"] == cut["scale"] == pytest.approx(1.0 if definition == "pure" else 0.5**0.5)
    assert rows["margin"] < 5
    assert total_loss(found, group) == 10
    for event, most in zip(map(Event.from_dict, found["transcript"][:3]), (1, 1, 2), strict=True):
        assert event.sensitivity == Fraction(most, group)
        assert float(event.scale) == pytest.approx(most * rows["scale"])
    assert found["tables"]["age_sex"]["counted"].startswith("at most 3 records of each unit (person)")
