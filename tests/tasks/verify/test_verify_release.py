"""Good releases of several kinds pass; what cannot be checked is named with what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tabularium.tasks.postprocess.postprocessing import CHANGED_IN_VERSION, VERSION
from tabularium.tasks.verify.subject import Finding, NotARelease, Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.tasks.verify.conftest import Make, Scene

pytestmark = pytest.mark.xdist_group("verify")

ALL = ", ".join(FORMATS)
KINDS: dict[str, Callable[[str], str]] = {
    "withheld": lambda text: text.replace(
        "publication: {", 'publication: {measurements: {withhold: "too large"}, '
    ),
    "only-csv": lambda text: text.replace("publication: {", "publication: {formats: [csv], "),
    "only-parquet": lambda text: text.replace("publication: {", "publication: {formats: [parquet], "),
    "no-rounding": lambda text: (
        text.replace("publication: {", f"publication: {{formats: [{ALL}], ")
        + "postprocessing: {rounding: false}\n"
    ),
    "raw": lambda text: (
        text + "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
    ),
    "quality": lambda text: text.replace(
        "publication: {",
        f'publication: {{quality: {{unreliable: "20%", suppress: "60%", at_least: 60}}, formats: [{ALL}], ',
    ),
    "noise-first": lambda text: text.replace(
        "dimensions: [age, sex]", "dimensions: [age, sex]\n    mechanism: noise_first"
    ),
    "dawa": lambda text: text.replace(
        "dimensions: [age, sex]", "dimensions: [age, sex]\n    mechanism: dawa"
    ),
}


def findings(release: Path, books: Path | None = None, key: Path | None = None) -> list[Finding]:
    """What every check of a release comes to."""
    return list(verify_release(Subject(release, key, books)))


def failed(found: list[Finding]) -> list[str]:
    return [f"{each.what}: {each.said}" for each in found if each.outcome == "failed"]


def unchecked(found: list[Finding]) -> list[str]:
    return [each.said for each in found if each.outcome == "unchecked"]


def test_a_release_with_everything_in_it_passes(scene: Scene) -> None:
    found = findings(scene.release, scene.books, scene.key)
    assert not failed(found) and not unchecked(found)


@pytest.mark.parametrize("kind", KINDS)
def test_releases_of_other_kinds_pass(make: Make, kind: str) -> None:
    made = make(kind, KINDS[kind])
    found = findings(made.release, made.books)
    assert not failed(found)
    assert any("withheld" in needed for needed in unchecked(found)) == (kind == "withheld")
    assert any("blank counts as they were made again" in each.said for each in found) == (kind == "quality")


def test_a_release_under_zcdp_passes(make: Make) -> None:
    made = make("zcdp", lambda text: text, definition="zcdp")  # type: ignore[call-arg]
    assert not failed(findings(made.release, made.books))


def test_without_an_export_the_ledger_is_not_checked(scene: Scene) -> None:
    found = findings(scene.release)
    assert not failed(found)
    assert len([needed for needed in unchecked(found) if "--export" in needed]) == 4
    found = findings(scene.release, key=scene.key)
    needed = [each.said for each in found if each.outcome == "unchecked" and each.group == "Signature"]
    assert len(needed) == 1 and "give a ledger export" in needed[0]


def test_another_version_of_the_post_processing_is_not_judged(scene: Scene, tmp_path: Path) -> None:
    release = scene.copy(tmp_path)
    text = json.loads((release / "certificate.json").read_text())
    text["postprocessing"]["version"] += 1
    (release / "certificate.json").write_text(json.dumps(text))
    needed = [each for each in unchecked(findings(release)) if "install tabularium-dp" in each]
    assert len(needed) >= 3


def test_a_mechanism_that_has_changed_since_is_not_judged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHANGED_IN_VERSION, "identity", VERSION + 1)
    found = findings(scene.release)
    assert not failed(found)
    assert len([each for each in unchecked(found) if "install tabularium-dp" in each]) >= 3


def test_what_is_no_release_is_said_to_be_none(tmp_path: Path) -> None:
    for text in (None, "", "[]", "{}", '{"format": 99, "files": {}, "spec": {}}', "[" * 100_000, "\x00"):
        if text is not None:
            (tmp_path / "certificate.json").write_text(text)
        with pytest.raises(NotARelease):
            findings(tmp_path)


PUBLISH = """
import sys
import tabularium.tasks.margins.margins as margins
from pathlib import Path
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
margins.replicates = lambda _cells: 8
for each in verify_release(Subject(Path(sys.argv[1]))):
    assert each.outcome != "failed", each
"""


@pytest.mark.parametrize("kernel", ["Prescott", "Haswell"])
def test_the_same_comes_out_on_other_machines(scene: Scene, kernel: str) -> None:
    """Another kernel of the linear algebra, and none of the features of this processor that NumPy uses."""
    features = "AVX2 FMA3 AVX512F AVX512_SKX AVX512_ICL X86_V3 X86_V4" if kernel == "Prescott" else ""
    environment = {
        **os.environ,
        "OPENBLAS_CORETYPE": kernel,
        "NPY_DISABLE_CPU_FEATURES": features,
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", PUBLISH, str(scene.release)],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
