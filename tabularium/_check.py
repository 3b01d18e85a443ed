"""What a spec would publish and cost and how accurate it would be, or everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._paying import Paying, paying
from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._spec import Spec
from tabularium.mechanisms.errors import InternalError, TabulariumError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tabularium.tasks.forecast.forecast import Expected
    from tabularium.validations.release_spec.problems import Problem
    from tabularium.validations.release_spec.summary import Checked


class Check:
    """The outcome of :func:`check`: true if the spec is in order.

    Attributes
    ----------
    problems
        All that is wrong, each with ``line``, ``field``, ``what`` and ``hint``.
    """

    def __init__(self, checked: Checked, expected: Sequence[Expected], account: Paying | None = None) -> None:
        self._checked, self._expected, self._account = checked, expected, account
        self.problems: tuple[Problem, ...] = checked.problems

    def __bool__(self) -> bool:
        return self._checked.summary is not None

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for every number that noise will drown in a typical cell, with what would help."""
        from tabularium.tasks.forecast.describe_check import warnings_of

        summary = self._checked.summary
        if summary is None:
            return ()
        return tuple(warnings_of(self._expected, summary.spec.privacy.definition))

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: ``ok``, ``problems``, ``summary`` with tables, costs and margins."""
        document = self._checked.as_json()
        if document["summary"] is not None:
            document["summary"]["expected_margins"] = [
                expectation.as_json() for expectation in self._expected
            ]
            document["summary"]["warnings"] = list(self.warnings)
            if self._account is not None:
                document["summary"]["account"] = self._account.as_json()
        return document

    def __rich__(self) -> RenderableType:
        """Return what Rich prints."""
        from rich.text import Text

        from tabularium.tasks.forecast.describe_check import render
        from tabularium.validations.release_spec.problems import format_problems

        summary = self._checked.summary
        if summary is None:
            return Text(format_problems(self.problems))
        return render(summary, self._expected, None if self._account is None else self._account.words)

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=110, no_color=True, emoji=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def check(
    spec: Spec | str | os.PathLike[str],
    *,
    like: Release | str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Check:
    """Say everything that is wrong with a spec, or what it will publish, cost and be worth. Opens no data.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    like
        A published release, or its folder, whose counts say how many records cells have; otherwise ``size``
        of the spec does.
    home
        Of the installation whose ledger says what the account can pay; TABULARIUM_HOME or ``~/.tabularium``
        unless said, and nothing is said where none is there. None is made, and nothing in it is changed.

    Raises
    ------
    InputError
        The release is a rehearsal or has none of the tables of the spec, or ``home`` was named and is not
        there.
    LedgerError
        The ledger of a home that was named does not answer.
    """
    from tabularium.validations.release_spec.summary import Checked, check

    path, period = (spec.path, spec._period) if isinstance(spec, Spec) else (Path(spec), None)
    checked = check(path, period=period)
    if checked.summary is not None and (refused := _refused(path, period)) is not None:
        checked = Checked((refused,), None)
    if checked.summary is None:
        return Check(checked, ())
    return Check(checked, _expected(path, period, like), paying(checked.summary.spec, home))


def _expected(
    path: Path, period: str | None, like: Release | str | os.PathLike[str] | None
) -> Sequence[Expected]:
    from tabularium.tasks.forecast.forecast import forecast
    from tabularium.validations.release_spec.load import load_spec

    release = like if isinstance(like, Release) or like is None else open_release(like)
    return forecast(load_spec(path, period=period), None if release is None else release._published("like"))


def _refused(path: Path, period: str | None) -> Problem | None:
    """Return what a run would refuse in a spec that is in order, once it tried it without data."""
    from tabularium.tasks.dry_run import dry_run_spec
    from tabularium.tasks.runtime.run import without_data
    from tabularium.validations.release_spec.load import load_spec
    from tabularium.validations.release_spec.problems import Problem

    try:
        run = without_data(load_spec(path, period=period))
        dry_run_spec(run)
    except InternalError:
        raise
    except TabulariumError as error:
        return Problem(None, error.where, error.what, error.hint, path.name)
    return None
