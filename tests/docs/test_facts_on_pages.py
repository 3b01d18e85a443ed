"""Numbers and lists that pages state in words are those of the code."""

from __future__ import annotations

import ast
import inspect
import re
from typing import get_args

import pytest

from tabularium.flows.operations.watcher import AFTER_CRASHES
from tabularium.validations.certificate.tables import Method
from tabularium.validations.release_spec import exact_facts as exact
from tests.docs.pages import DOCS, PAGES, ROOT


def kinds_of_a_spec() -> set[str]:
    """The kinds of fact that make a spec need an approval under `--approve-exact`."""
    calls = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(exact.exact_facts)))
        if isinstance(node, ast.Call)
    )
    return {
        str(call.args[0].value)
        for call in calls
        if getattr(call.func, "id", "") == "ExactFact" and isinstance(call.args[0], ast.Constant)
    }


@pytest.mark.parametrize(
    "page", ["how-to/open-and-cap-an-account.md", "reference/ledger.md", "reference/command-line/ledger.md"]
)
def test_each_kind_of_exact_fact_is_named_where_approvals_are_asked_for(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    # A list's item goes on in indented lines.
    passages = [item for item in re.split(r"\n(?! )", text) if re.search(r"approve.exact", item)]
    assert passages
    assert [kind for kind in kinds_of_a_spec() if kind not in " ".join(passages)] == []


def test_the_kinds_are_found() -> None:
    assert kinds_of_a_spec() == {"limit", "rule", "invariant", "look-up"}


def test_how_often_a_dead_run_starts_again() -> None:
    words = {19: ("up to nineteen times", "after twenty crashes")}
    page = " ".join((DOCS / "how-to" / "run-under-prefect.md").read_text(encoding="utf-8").split())
    assert all(said in page for said in words[AFTER_CRASHES.most])


def test_the_agency_s_key_and_the_export_have_one_name() -> None:
    """What `verify` is given: `agency.pub.pem`, and a text file."""
    places = [
        *PAGES,
        *(ROOT / "flows").rglob("*.py"),
        *(ROOT / "tasks").rglob("*.jinja"),
        *(ROOT / "tabularium").glob("*.py"),
    ]
    found = [
        given
        for path in places
        for line in re.findall(r"tabularium verify [^`\n<]*", path.read_text(encoding="utf-8"))
        for given in re.findall(r"--(?:key|export) (\S+?)[.,)]?(?=[\s\"']|$)", line)
    ]
    wrong = {
        given
        for given in found
        if not re.fullmatch(r"(?:[\w/-]*/)?agency\.pub\.pem|[\w/-]+\.txt|FILE|BOOKS", given)
    }
    assert len(found) > 4
    assert not wrong


def test_every_method_of_a_margin_is_explained() -> None:
    page = (DOCS / "how-to" / "read-a-margin-of-error.md").read_text(encoding="utf-8")
    assert all(f"\n| `{method}` |" in page for method in get_args(Method))


def test_what_the_architecture_names_in_a_file_is_there() -> None:
    """The table of questions: the names before "in", and the file after it."""
    table = (ROOT / "docs/explanation/architecture.md").read_text().partition("## The files")[2]
    found = re.findall(r"((?:`[\w.]+`(?:, | and )?)+) in `([\w/]+\.py)`", table)
    assert len(found) > 15
    for names, file in found:
        text = (ROOT / file).read_text()
        for name in re.findall(r"\w+", names.replace(" and ", " ")):
            assert re.search(rf"\b(?:def|class) {name}\b|^ *\"?{name}\"?(?::| =)", text, re.M), name
