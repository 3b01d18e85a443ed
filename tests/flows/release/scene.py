"""A small release to run in tests: files, account, spec."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.flows.release_chain import Outcome, release_tables
from tabularium.ledger import Charge, Ledger
from tabularium.ledger.keys import make_key, public_hex
from tabularium.tasks.publish.release_folder import digest_of, files_in
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.tasks.runtime.run import Request
from tabularium.tasks.sign.judge_statement import Judgement, judge_statement, published_under
from tabularium.tasks.sign.sign_release import FILE
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.validations.certificate import CERTIFICATE, Certificate

AREAS = "code,label,parent\nN,Nation,\nA,Alpha,N\nB,Beta,N\nA1,Alpha one,A\nA2,Alpha two,A\nB1,Beta one,B\n"

SPEC = """\
product: small
dataset: people
period: "2026"
source: {{path: people.csv, max_rejected: {max_rejected}}}
privacy: {{unit: record, relation: add-remove, budget: "{budget}"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  age: {{integer: {{from: 0, to: 99, edges: [20, 65]}}}}
  sex: {{categories: {{"1": male, "2": female}}}}
tables:
  - name: area_age_sex
    dimensions: [area, age, sex]
    share: "2/3"
    levels: {{nation: "1/4", province: "1/4", place: "1/2"}}
  - name: age_sex
    dimensions: [age, sex]
    share: "1/3"
rules: {rules}
publication: {{folder: releases}}
"""


def people(rows: int) -> list[tuple[str, str, str]]:
    """Rows (area, age, sex) from a fixed recipe."""
    return [(("A1", "A2", "B1")[i % 3], str(i * 7 % 100), str(1 + i % 2)) for i in range(rows)]


def write_scene(
    folder: Path,
    *,
    rows: int = 600,
    budget: str = "1",
    cap: str = "10",
    max_rejected: str = "0",
    rules: str = "[]",
    extra: list[tuple[str, ...]] | None = None,
    definition: str = "pure",
    delta: str = "1/1000000",
) -> tuple[Path, Home]:
    """Write microdata, code list and spec, and open the account; return the spec and the home."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("area", "age", "sex"))
        writer.writerows(people(rows))
        writer.writerows(extra or [])
    (folder / "areas.csv").write_text(AREAS)
    spec = folder / "small.yaml"
    text = SPEC.format(budget=budget, max_rejected=max_rejected, rules=rules)
    if definition != "pure":
        text = text.replace("unit: record,", f'unit: record, definition: {definition}, delta: "{delta}",')
    spec.write_text(text)
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as books:
        if not list(books.accounts()):
            books.open_account(
                "people",
                unit="record",
                relation="add-remove",
                definition=definition,
                cap=Fraction(cap),
                delta=None if definition == "pure" else Fraction(delta),
            )
    return spec, home


def let_sign(home: Home, officer: Ed25519PrivateKey | None = None) -> Ed25519PrivateKey:
    """Put a key for releases into the home and enrol it, signed with an officer's key, which is returned."""
    with Ledger.connect(home.ledger_url) as books:
        if officer is None:
            officer = Ed25519PrivateKey.generate()
            books.enrol_key(public_hex(officer), officer="A. Ro", by=officer)
        (home.path / FILE).unlink(missing_ok=True)
        made = make_key(home.path / FILE)
        books.enrol_release_key(public_hex(made), agency="Statistics", by=officer)
    return officer


def write_signing_scene(folder: Path) -> tuple[Path, Home]:
    """Write the small release on a machine that signs what it publishes."""
    spec, home = write_scene(folder)
    let_sign(home)
    return spec, home


def judged(home: Home, folder: Path) -> Judgement:
    """What a stranger finds who has the folder, and an export of the ledger that he trusts."""
    raw = (folder / STATEMENT).read_bytes() if (folder / STATEMENT).exists() else None
    certificate = Certificate.read((folder / CERTIFICATE).read_bytes())
    files = {str(path.relative_to(folder)): digest_of(path) for path in files_in(folder)}
    files.pop(STATEMENT, None)
    with Ledger.connect(home.ledger_url) as books:
        ledger = published_under(books.entries(), certificate.release_id, raw)
    return judge_statement(raw, files, certificate, files[CERTIFICATE], ledger=ledger)


def require_signed(home: Home, folder: Path, charge: Charge) -> None:
    """See that a release is signed, and that the ledger's entry names the statement."""
    assert digest_of(folder / STATEMENT) == charge.statement
    assert judged(home, folder).vouches, judged(home, folder)


def publish(
    spec: Path, home: Home, *, source: Path | str | None = None, period: str | None = None
) -> Outcome:
    """Run a release in this process; one file does for all its periods."""
    request = Request.of(spec, None if source is None else str(source), period, home.path, same_input=True)
    return release_tables(request)


class Finished(NullReporter):
    """Names the stages that ended well."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        self.stages.append(stage)


@dataclass
class Before(NullReporter):
    """Does ``work`` when the stage called ``name`` begins."""

    name: str = ""
    work: Callable[[], None] = lambda: None

    def started(self, stage: str) -> None:
        if stage == self.name:
            self.work()


def publish_with(work: Callable[[], None], *, before: str, spec: Path, home: Home) -> Outcome:
    """Run a release in this process, and do ``work`` when the stage called ``before`` begins."""
    with reporting_to(Before(name=before, work=work)):
        return publish(spec, home)


def states(home: Home) -> list[str]:
    """Return the states of the charges."""
    with Ledger.connect(home.ledger_url) as books:
        return [charge.state for charge in books.charges("people")]
