"""docs/reference/query-language.md: its release can be made, its queries are answered, its mistakes say what the page says."""

from __future__ import annotations

import csv
import re
from fractions import Fraction
from itertools import pairwise
from math import log
from pathlib import Path

import pytest

from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries import METHODS, ask, grammar
from tabularium.tasks.query.query_release import OpenRelease, open_release
from tabularium.tasks.runtime.home import Home

# One worker: the release is made once.
from tests.flows.release.scene import publish

pytestmark = pytest.mark.xdist_group("query")

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "query-language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)(?: title=\"([\w.]*)\")?\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
GOOD = [line for kind, mark, text in BLOCKS for line in text.splitlines() if kind == "query" and not mark]
ESTIMATED = [
    line
    for kind, mark, text in BLOCKS
    for line in text.splitlines()
    if (kind, mark) == ("query", "estimated")
]
WRONG = [
    pair
    for (kind, mark, text), (_, _, said) in pairwise(BLOCKS)
    if (kind, mark) == ("query", "wrong")
    for pair in zip(text.splitlines(), said.splitlines(), strict=True)
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> OpenRelease:
    folder = tmp_path_factory.mktemp("docs")
    for _, name, text in BLOCKS:
        if name in {"spec.yaml", "areas.csv"}:
            (folder / name).write_text(text, encoding="utf-8")
    with (folder / "persons.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("area", "age", "sex", "household", "wage", "address"))
        sizes = ("1", "2", "3", "4", "5 or more")
        writer.writerows(
            (("N1", "N2", "S1")[i % 3], i * 7 % 100, "MF"[i % 2], sizes[i * 3 % 5], i * 37 % 6000, i % 1000)
            for i in range(4000)
        )
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as books:
        books.open_account("census", unit="record", relation="add-remove", definition="pure", cap=Fraction(1))
    spec = str(folder / "spec.yaml")
    outcome = publish(Path(spec), home)
    return open_release(Path(outcome.folder))


def test_the_page_has_examples() -> None:
    assert len(GOOD) >= 12
    assert len(ESTIMATED) == 3
    assert len(WRONG) >= 8


@pytest.mark.parametrize("text", GOOD)
def test_every_query_of_the_page_is_answered(release: OpenRelease, text: str) -> None:
    for row in ask(text, release.asked).rows:
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.high


@pytest.mark.parametrize("text", ESTIMATED)
def test_every_property_of_the_page_is_that_of_the_records(release: OpenRelease, text: str) -> None:
    """Of a thousand addresses with four persons each."""
    answer = ask(text, release.asked, histograms=release.histograms)
    (row,) = answer.rows
    assert (answer.table, answer.method) == ("address_sizes", "estimated")
    exact, off = {"support": (1000, 200), "entropy": (log(1000), 0.2), "distance": (0, 0.3)}[answer.measure]
    assert row.value == pytest.approx(exact, abs=off)
    assert (row.standard_error, row.low, row.high) == (None, None, None)


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[text for text, _ in WRONG])
def test_every_mistake_says_what_the_page_says(release: OpenRelease, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(text, release.asked, histograms=release.histograms)
    assert str(caught.value) == said


def test_the_page_has_the_language_and_every_method() -> None:
    rules = [
        line.strip() for line in (grammar.__doc__ or "").splitlines() if re.match(r"    \w* *[=|] ", line)
    ]
    assert len(rules) == 15
    page = [line.strip() for line in PAGE.splitlines()]
    assert all(rule in page for rule in rules)
    assert all(f"| `{method}` |" in PAGE for method in METHODS)
