"""A file that nobody replaced is not published again as another period, unless that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.flows.release_chain import release_tables
from tabularium.mechanisms.errors import DataRefused
from tabularium.tasks.runtime.run import Request
from tests.flows.release.scene import publish, states, write_scene


def ask(spec: Path, home: Path, period: str, *, same_input: bool = False) -> str:
    return release_tables(Request.of(spec, None, period, home, same_input=same_input)).status


def test_an_unchanged_file_is_refused_for_another_period_and_nothing_is_spent(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    assert ask(spec, home.path, "2026") == "published"
    with pytest.raises(DataRefused, match=r"period 2026 already.*--same-input") as refused:
        ask(spec, home.path, "2027")
    assert "data rules" in refused.value.in_public().line()
    assert "period" not in refused.value.in_public().line(), "which it was is told at home alone"
    assert states(home) == ["published"]
    assert ask(spec, home.path, "2026") == "already published"
    assert ask(spec, home.path, "2027", same_input=True) == "published"
    assert ask(spec, home.path, "2027") == "already published", "what is bound needs no word again"
    assert states(home) == ["published", "published"]


def test_a_changed_file_and_another_product_are_not_the_same(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    with (tmp_path / "people.csv").open("a", newline="") as file:
        file.write("A1,5,1\r\n")
    assert ask(spec, home.path, "2027") == "published"
    other = tmp_path / "other.yaml"
    other.write_text(spec.read_text().replace("product: small", "product: other"))
    assert ask(other, home.path, "2028") == "published"


def test_the_path_of_the_source_may_hold_the_period(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    spec.write_text(spec.read_text().replace("people.csv", '"in/{period}/people.csv"'))
    (tmp_path / "in" / "2026-Q1").mkdir(parents=True)
    (tmp_path / "people.csv").rename(tmp_path / "in" / "2026-Q1" / "people.csv")
    request = Request.of(spec, None, "2026-Q1", home.path)
    assert release_tables(request).status == "published"
    for period in ("..", "../2026-Q1", "2026/../x", ".2026"):
        with pytest.raises(Exception, match="--period"):
            release_tables(Request.of(spec, None, period, home.path))
