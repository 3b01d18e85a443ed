"""What a spec would publish and cost, or everything that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._spec import Spec
from tabularium.mechanisms.errors import InternalError, TabulariumError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tabularium.validations.spec.problems import Problem
    from tabularium.validations.spec.summary import Checked


class Check:
    """The outcome of :func:`check`: true if the spec is in order.

    Attributes
    ----------
    problems
        All that is wrong, each with ``line``, ``field``, ``what`` and ``mend``.
    """

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self.problems: tuple[Problem, ...] = checked.problems

    def __bool__(self) -> bool:
        return self._checked.summary is not None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: ``ok``, ``problems``, ``summary`` with tables, costs and margins."""
        return self._checked.as_json()

    def __rich__(self) -> RenderableType:
        """Return what Rich prints."""
        from rich.text import Text

        from tabularium.validations.spec.problems import format_problems
        from tabularium.validations.spec.summary import render

        summary = self._checked.summary
        return Text(format_problems(self.problems)) if summary is None else render(summary)

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=110, no_color=True, emoji=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def check(spec: Spec | str | os.PathLike[str]) -> Check:
    """Say everything that is wrong with a spec, or what it will publish and cost. Opens no data.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    """
    from tabularium.validations.spec.summary import Checked, check

    path, period = (spec.path, spec._period) if isinstance(spec, Spec) else (Path(spec), None)
    checked = check(path, period=period)
    if checked.summary is not None and (refused := _refused(path, period)) is not None:
        checked = Checked((refused,), None)
    return Check(checked)


def _refused(path: Path, period: str | None) -> Problem | None:
    """Return what a run would refuse in a spec that is in order, once it tried it without data."""
    from tabularium.tasks.dry_run import dry_run_spec
    from tabularium.tasks.runtime.run import without_data
    from tabularium.validations.spec.load import load_spec
    from tabularium.validations.spec.problems import Problem

    try:
        with without_data(load_spec(path, period=period)) as run:
            dry_run_spec(run)
    except InternalError:
        raise
    except TabulariumError as error:
        return Problem(None, error.where, error.what, error.mend, path.name)
    return None
