"""The published folder: its rights, what may lie in it, and whose it is."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import InputError, PublicationError, TabulariumError
from tabularium.tasks.publish.publish import write_files
from tests.flows.release.scene import publish, publish_with, states, write_scene


def test_published_folders_can_be_read_and_the_umask_is_as_before(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    before = os.umask(0o027)
    try:
        folder = Path(publish(spec, home).folder)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    for path in (folder, *list(folder.parents)[:3]):
        assert path.stat().st_mode & 0o777 == 0o755, path


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_lost_publication_folder_is_made_anew_byte_for_byte(tmp_path: Path) -> None:
    """Without the input, which may be long gone."""
    spec, home = write_scene(tmp_path)
    first = publish(spec, home)
    before = contents(tmp_path / "releases")
    assert any(".heads" in name for name in before)
    shutil.rmtree(tmp_path / "releases")
    (tmp_path / "people.csv").rename(tmp_path / "gone.csv")
    again = publish(spec, home)
    assert (again.status, again.certificate) == ("already published", first.certificate)
    assert contents(tmp_path / "releases") == before
    assert states(home) == ["published"]


def test_all_lost_folders_of_a_product_are_made_anew_by_one_command(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    write_scene(tmp_path, rows=630)
    publish(spec, home, period="2027")
    before = contents(tmp_path / "releases")
    (tmp_path / "people.csv").unlink()

    def rebuild() -> Result:
        return CliRunner().invoke(app, ["rebuild", str(spec), "--home", str(home.path), "--json"])

    assert json.loads(rebuild().stdout) == []
    shutil.rmtree(tmp_path / "releases")
    made = json.loads(rebuild().stdout)
    assert [(each["period"], each["error"]) for each in made] == [("2026", None), ("2027", None)]
    assert contents(tmp_path / "releases") == before
    shutil.rmtree(tmp_path / "releases" / "small" / "2027")
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "9/10"'))
    done = rebuild()
    (left,) = json.loads(done.stdout)
    assert done.exit_code == 1 and "is not the spec that it was published by" in left["error"]


def test_a_folder_is_made_anew_where_it_was_or_not_at_all(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    folder = Path(publish(spec, home).folder)
    shutil.rmtree(tmp_path / "releases")

    def rebuild(of: Path) -> tuple[int, list[dict[str, Any]]]:
        done = CliRunner().invoke(app, ["rebuild", str(of), "--home", str(home.path), "--json"])
        return done.exit_code, json.loads(done.stdout)

    (tmp_path / "archive").mkdir()
    for name in ("small.yaml", "areas.csv", "people.csv"):
        shutil.copy(tmp_path / name, tmp_path / "archive")
    code, (left,) = rebuild(tmp_path / "archive" / "small.yaml")
    assert code == 1 and "this was published elsewhere" in left["error"]
    assert not (tmp_path / "archive" / "releases").exists()
    now = tmp_path / "now.yaml"
    now.write_text(spec.read_text().replace("dataset: people", "dataset: others"))
    code, (left,) = rebuild(now)
    assert code == 1 and left["error"], "of an account that the product has no longer"
    assert rebuild(spec)[0] == 0
    assert folder.is_dir()


def test_a_release_has_one_folder_wherever_the_spec_publishes_today(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    publish(spec, home)
    spec.write_text(spec.read_text().replace("{folder: releases}", "{folder: public}"))
    with pytest.raises(InputError, match=r"publication.folder: this release lies in .*releases"):
        publish(spec, home)
    assert not (tmp_path / "public").exists()
    (tmp_path / "releases").rename(tmp_path / "public")
    assert publish(spec, home).status == "already published"


@pytest.mark.parametrize("software", ["numpy", None])
def test_a_lost_folder_that_comes_out_otherwise_is_left_lost(
    software: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tabularium.tasks.publish.publish as rebuilding

    spec, home = write_scene(tmp_path)
    publish(spec, home)
    shutil.rmtree(tmp_path / "releases")

    def otherwise(*given: Any) -> None:
        write_files(*given)
        with (given[-1] / "age_sex.csv").open("a") as file:
            file.write("\n")

    monkeypatch.setattr(rebuilding, "write_files", otherwise)
    said = "made with tabularium-dp .*, or run with that software" if software else "the software is the same"
    if software:
        monkeypatch.setattr(rebuilding, "software_versions", lambda: {"tabularium-dp": "9"})
    with pytest.raises(
        PublicationError, match=rf"age_sex\.csv does not come out as it was published.*{said}"
    ):
        publish(spec, home)
    assert not [path for path in (tmp_path / "releases").rglob("*") if path.is_file()]


def test_foreign_files_and_a_folder_whose_certificate_was_not_kept_are_told_apart(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    folder = Path(publish(spec, home).folder)
    (folder / "extra.txt").write_text("")
    with pytest.raises(PublicationError, match=r"extra\.txt' is no part"):
        publish(spec, home)
    (folder / "extra.txt").unlink()
    folder.rename(tmp_path / "elsewhere")
    next(home.measurements.glob("*/certificate.json")).unlink()
    with pytest.raises(PublicationError, match="no release lies in this folder"):
        publish(spec, home)


def test_seeded_noise_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tabularium.tasks.measure
    from tabularium.mechanisms.channel import SeededChannel

    spec, home = write_scene(tmp_path)
    monkeypatch.setattr(
        tabularium.tasks.measure,
        "SecureChannel",
        lambda budget, **kind: SeededChannel(budget, seed=1, **kind),
    )
    with pytest.raises(PublicationError, match="seeded stream"):
        publish(spec, home)
    assert not (tmp_path / "releases" / "small" / "2026").exists()


def test_a_renamed_folder_is_adopted_only_if_it_says_what_the_ledger_says(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)

    def dies() -> None:
        raise RuntimeError("between the rename and the books")

    with pytest.raises(TabulariumError):
        publish_with(dies, before="close the charge", spec=spec, home=home)
    (path,) = (tmp_path / "releases" / "small" / "2026").glob("*[0-9a-f]/certificate.json")
    good = path.read_text()
    path.chmod(0o644)
    path.write_text(good.replace('"amount": "1"', '"amount": "1/2"'))
    with pytest.raises(PublicationError, match="differs from the ledger"):
        publish(spec, home)
    assert states(home) == ["measured"]
    # A count with all digests fixed up fits the ledger and itself; only the measurements tell.
    forged, table = json.loads(good), path.parent / "age_sex.csv"
    true = table.read_bytes()
    table.chmod(0o644)
    table.write_bytes(re.sub(rb"(\d+),(\d+)\n", rb"9\1,\2\n", true, count=1))
    forged["files"]["age_sex.csv"] = hashlib.sha256(table.read_bytes()).hexdigest()
    path.write_text(json.dumps(forged))
    with pytest.raises(PublicationError, match="not what the stored measurements give: files differs"):
        publish(spec, home)
    assert states(home) == ["measured"]
    table.write_bytes(true)
    path.write_text(good)
    assert publish(spec, home).status == "published"
    assert path.read_text() == good
