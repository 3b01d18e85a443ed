"""A stage: a Prefect task inside a flow, a plain call elsewhere, and silent about data in both."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from prefect import flow

from tabularium.mechanisms.errors import InputError, InputRefused, InternalError
from tabularium.tasks.count.count_files import CountFile, read_counts
from tabularium.tasks.ingest.ingest import files_digest
from tabularium.tasks.runtime.diagnoses import Unexpected
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, Stopping, reporting_to
from tabularium.tasks.runtime.stage import Stage, stage
from tabularium.tasks.runtime.workspace import Workspace
from tabularium.validations.redaction import data_were_opened, note_data_opened

SECRET = "Zebedee"


@stage("double")
def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


@stage("where")
def where() -> str | None:
    from prefect.context import TaskRunContext

    context = TaskRunContext.get()
    return None if context is None else context.task.name


@stage("tell")
def tell(ours: bool) -> None:
    if ours:
        raise InputError("is not a number", where="age", hint="write digits")
    raise ValueError(f"{SECRET} is not a number")


class Finished(NullReporter):
    """Names the stages that ended well."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        self.stages.append(stage)


def test_outside_a_flow_it_is_its_function_and_is_reported() -> None:
    assert isinstance(double, Stage)
    assert double.__doc__ == "Return twice the number."
    heard = Finished()
    with reporting_to(heard):
        assert double(21) == 42
    assert heard.stages == ["double"]


@pytest.mark.parametrize("ours", [True, False])
def test_what_it_raises_once_data_were_opened_holds_no_trace_of_them(
    ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabularium.validations.redaction._opened", threading.Event())
    home = Home.at(tmp_path / "home")
    note_data_opened()
    with pytest.raises(InputError if ours else InternalError) as caught:
        tell(ours)
    error = caught.value
    assert SECRET not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    if not ours:
        assert "ValueError at test_stage.py" not in str(error) and "unexpected error ValueError" in str(error)
        (file,) = home.tracebacks.iterdir()
        assert (
            f"its traceback stands in {file};" in str(error) and f"ValueError: {SECRET}" in file.read_text()
        )
        assert [each.stat().st_mode & 0o777 for each in (file, file.parent)] == [0o600, 0o700]


def test_before_any_data_were_opened_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabularium.validations.redaction._opened", threading.Event())
    with pytest.raises(Unexpected, match=f"unexpected ValueError at .*: {SECRET} is not a number") as caught:
        tell(ours=False)
    assert "in tell\n" in caught.value.traceback and SECRET in caught.value.traceback


@pytest.mark.parametrize(
    "look",
    [
        lambda home: Workspace.create(home).release(),
        lambda home: home.secret(),
        lambda home: files_digest(str(home.path / "people.csv"), b"s"),
        lambda home: read_counts(CountFile(str(home.path / "gone.npy"), (1,), ""), b"s"),
    ],
    ids=["workspace", "secret", "source", "counts"],
)
def test_what_opens_data_is_remembered(
    look: Callable[[Home], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabularium.validations.redaction._opened", threading.Event())
    home = Home.at(tmp_path / "home")
    (home.path / "people.csv").write_text("a\n1\n")
    assert not data_were_opened()
    with suppress(InputError):
        look(home)
    assert data_were_opened()


@stage("several", composite=True)
def several() -> str | None:
    return where()


def test_of_several_stages_in_one_each_is_reported_and_the_one_is_not() -> None:
    heard = Finished()
    with reporting_to(heard):
        several()
    assert heard.stages == ["where"]


@pytest.mark.audit  # tests/flows/cli/test_run.py asks a server which tasks a release had
@pytest.mark.xdist_group("engine")
def test_inside_a_flow_it_is_a_task_of_that_name() -> None:
    @flow
    def twice() -> tuple[int, str | None, str | None]:
        return double(4), where(), several()

    from prefect.testing.utilities import prefect_test_harness  # its server takes a while to import

    with prefect_test_harness(server_startup_timeout=180):
        assert twice() == (8, "where", "several")
    assert where() is None


def test_what_a_library_raises_when_the_process_is_to_stop_is_not_taken_for_refused_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that arrives inside a library may end its work with an error of the library's own."""

    @stage("interrupted")
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise InputRefused("cannot be read")

    heard = Stopping()
    monkeypatch.setattr("tabularium.tasks.runtime.stage.stopping", heard)
    before = signal.signal(signal.SIGTERM, _swallowed)
    try:
        heard.listen_again()
        with pytest.raises(SystemExit):
            interrupted()
        with pytest.raises(SystemExit):
            heard.raise_if_requested()
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, before)


def _swallowed(*_: object) -> None:
    """What becomes of a signal whose exception a library does not let through."""
