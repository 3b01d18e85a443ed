"""Nothing that is published changes unseen: every spec of the net gives the outputs whose digests are kept.

Where a change is meant, ``python -m tests.net.record`` writes the digests anew and says which changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.tasks.postprocess import estimation
from tabularium.tasks.postprocess.postprocessing import ROUNDING, PostProcessor
from tabularium.tasks.publish.certificate import sections
from tests.debian import Unavailable
from tests.ledger.storage.postgres import Server
from tests.net import publishing, specs
from tests.net.core_alone import Core
from tests.net.publishing import (
    LEFT_OUT,
    SIMULATED,
    differing,
    digests,
    published_texts,
    settled,
    write_texts,
)
from tests.net.record import recorded
from tests.net.specs import SPECS
from tests.tasks.engines import one_spec
from tests.tasks.engines.spark_cluster import cluster, executors_used


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with settled() as patch:
        yield patch


def require_as_recorded(name: str, publishing: specs.Publishing, folder: Path) -> None:
    """See that a spec gives the outputs that are recorded, and keep the texts of others."""
    texts = published_texts(publishing, folder / name)
    other = differing(recorded()[name], digests(texts))
    if other:
        write_texts({output: texts[output] for output in other if output in texts}, folder / "texts")
        pytest.fail(
            f"the spec {name} gives other outputs than are recorded: {', '.join(other)}; the new ones lie in "
            f"{folder / 'texts'}; those of an earlier version writes, there: python -m tests.net.record {name} "
            "--texts FOLDER"
        )


ITSELF = "it fits itself: what follows from spec, transcript and digests is what it says"
FROM_THE_MEASUREMENTS = {
    "numbers and margins follow from the noisy measurements",
    "what the certificate says of them follows from the measurements",
    "sums that whole numbers could not meet are named",
}
#: What a mechanism is asked that needs SciPy.
OF_THE_MECHANISM = FROM_THE_MEASUREMENTS | {
    ITSELF,
    "the published measurements were drawn as the transcript says",
    "noisy measurements stand at the cells that they are of",
}
BEYOND_THE_CORE = {
    **dict.fromkeys(("any_engine", "every_mechanism", "every_mechanism_zcdp", "histogram"), OF_THE_MECHANISM),
    "invariants": OF_THE_MECHANISM,
    "every_format": OF_THE_MECHANISM | {"they add up, are not negative, agree, and show invariants exactly"},
    "universes": FROM_THE_MEASUREMENTS,
    "drawn_to_above": {ITSELF},  # its δ needs dp-accounting
}
"""Spec -> what is not checked of it where no extra is installed."""


@pytest.fixture(scope="module")
def core() -> Iterator[Core]:
    with Core(SIMULATED) as core:
        yield core


@pytest.mark.parametrize("name", SPECS)
def test_what_is_published_is_what_was_recorded_and_the_core_verifies_it(
    name: str, core: Core, tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    del patch
    releases: list[Path] = []

    def published(folder: Path) -> specs.Published:
        found = SPECS[name](folder)
        releases.extend(found.releases)
        return found

    require_as_recorded(name, published, tmp_path)
    for release in releases:
        found = core.findings(release)
        assert not [each for each in found if each["outcome"] == "failed"]
        open_ = {each["what"] for each in found if each["not_installed"]}
        assert open_ == BEYOND_THE_CORE.get(name, set())


@pytest.mark.parametrize("files", [name for name in specs.IN_FILES if name != "parquet"])
def test_other_files_and_databases_give_the_same(
    files: str, tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    del patch
    require_as_recorded("any_engine", partial(from_files, specs.IN_FILES[files]), tmp_path)


def from_files(source: str, folder: Path) -> specs.Published:
    specs.write_for_engines(folder)
    return specs.from_engine(folder, source)


def test_a_table_in_postgresql_gives_the_same(
    server: Server, tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    del patch
    if not server.socket:
        pytest.skip("the folder of the server's socket has too long a name")
    database = server.new_database()

    def in_place(folder: Path) -> specs.Published:
        one_spec.put(server, database, specs.write_for_engines(folder))
        return specs.from_engine(folder, one_spec.on_postgresql(server, database))

    try:
        require_as_recorded("any_engine", in_place, tmp_path)
    finally:
        server.drop_database(database)


@pytest.mark.filterwarnings("ignore")  # PySpark warns of libraries of its own
def test_a_cluster_of_spark_gives_the_same(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    del patch
    try:
        with cluster(tmp_path / "cluster") as master:
            on_it = f"path: people.parquet, engine: spark, master: '{master}'"
            require_as_recorded("any_engine", partial(from_files, on_it), tmp_path / "release")
        assert executors_used(tmp_path / "cluster") == 2
    except Unavailable as reason:
        pytest.skip(str(reason))


# --- the net itself


def other_margin(patch: pytest.MonkeyPatch) -> None:
    real = estimation.margins_of

    def margins_of(*given: Any, **named: Any) -> Any:
        made = real(*given, **named)
        name, first = next(iter(made.items()))
        half = np.array(first.half)
        half.flat[0] += 1
        return {**made, name: replace(first, half=half)}

    patch.setattr(estimation, "margins_of", margins_of)


def other_rounding(patch: pytest.MonkeyPatch) -> None:
    real = PostProcessor.apply

    def apply(self: PostProcessor, step: str, estimates: Any, **named: Any) -> Any:
        agreed = real(self, step, estimates, **named)
        if step == ROUNDING:
            for each in agreed.estimates.values():  # which still add up
                each.values[:, :2] = each.values[:, 1::-1]
        return agreed

    patch.setattr(PostProcessor, "apply", apply)


def other_noise(patch: pytest.MonkeyPatch) -> None:
    real = publishing.draw_from
    patch.setattr(publishing, "draw_from", lambda seed, *more: real(f"{seed} again", *more))


def other_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sections, "SIDE_CHANNELS", sections.SIDE_CHANNELS[1:])


def other_command(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tabularium.flows.cli.published.verify_command._conclude", lambda *_: None)


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], tuple[set[str], set[str]]] = {
    other_margin: (
        {"area_age_sex.csv", "area_age_sex.parquet", "margins"},
        {"age_sex.csv", "ledger history"},
    ),
    other_rounding: ({"age_sex.csv", "certificate.json"}, {"measurements/age_sex.parquet"}),
    other_noise: (
        {"measurements/age_sex.parquet", "age_sex.csv", "query count"},
        {"check", "ledger history"},
    ),
    other_word: ({"certificate.json"}, {"age_sex.csv", "ledger history", "check"}),
    other_command: ({"verify"}, {"certificate.json", "query count", "check"}),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_change_is_caught_and_named(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    plant(patch)
    with pytest.raises(pytest.fail.Exception) as told:
        require_as_recorded("plain", SPECS["plain"], tmp_path)
    caught, left = PLANTED[plant]
    named = set(str(told.value).partition(": ")[2].partition("; ")[0].split(", "))
    assert caught <= named and not left & named, named
    texts = {path.name.replace("|", "/") for path in (tmp_path / "texts").iterdir()}
    assert texts == named


def test_every_mechanism_measures_a_table_or_a_histogram_of_the_net() -> None:
    """Which forms there are the registry says: a new one is to be recorded."""
    outputs = {name for spec in ("every_mechanism", "every_mechanism_zcdp") for name in recorded()[spec]}
    tables = {name.removesuffix(".csv") for name in outputs if name.endswith(".csv")}
    assert specs.MECHANISMS.keys() - tables == set(specs.OF_NO_TABLE)
    assert specs.FORMS.keys() <= tables


def test_little_is_left_out(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """Each thing that is left out is there, in a signed release."""
    del patch
    tmp_path = tmp_path / "scene"
    tmp_path.mkdir()
    release = SPECS["slabs"](tmp_path).releases[0]
    assert len(LEFT_OUT) <= 12
    files = [name.partition(":")[0] for name in LEFT_OUT if not name.startswith(("digests", "digits"))]
    assert all((release / name).is_file() for name in files)
    whole = json.loads((release / "certificate.json").read_bytes())
    compared = json.loads(publishing.text_of(release / "certificate.json") or "")
    gone = [name.partition(": ")[2] for name in LEFT_OUT if name.startswith("certificate.json: ")]
    assert whole.keys() - compared.keys() == {name for name in gone if "." not in name}
