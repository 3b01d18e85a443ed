"""What would make a release fail is found before anything is charged."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.errors import LedgerError, MechanismError, PublicationError, TabulariumError
from tests.flows.release.scene import publish, states, write_scene


def test_a_lost_secret_stops_the_run_instead_of_paying_twice(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    (home.path / "secret").unlink()
    with pytest.raises(TabulariumError, match="secret is missing"):
        publish(spec, home)
    assert states(home) == ["published"]


def test_a_budget_beyond_the_sampler_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/360360000000")
    with pytest.raises(MechanismError, match="noise scale"):
        publish(spec, home)
    assert states(home) == []


def test_a_budget_off_the_quantum_is_refused_before_data_are_read(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="1/17")
    (tmp_path / "people.csv").unlink()
    with pytest.raises(LedgerError, match="multiple of the account's quantum"):
        publish(spec, home)


def test_a_read_only_publication_folder_is_found_before_anything_is_paid(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    (tmp_path / "releases").write_text("a file where the folder should be")
    with pytest.raises(PublicationError, match="nothing was charged"):
        publish(spec, home)
    assert states(home) == []
