"""``tabularium check``: every mistake of a spec at once, or what it will publish and cost."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.text import Text

from tabularium.flows.cli.options import AsJson, SpecPath
from tabularium.flows.cli.terminal import err, one_line_errors, out, print_json
from tabularium.mechanisms.errors import InternalError, TabulariumError
from tabularium.validations.spec.load import load_spec
from tabularium.validations.spec.problems import Problem, format_problems
from tabularium.validations.spec.summary import Checked, check, render


def check_spec(spec: SpecPath, as_json: AsJson = False) -> None:
    """Say everything that is wrong with SPEC, or what it will publish and cost. Opens no data."""
    with one_line_errors():
        if not report_spec(spec, as_json=as_json):
            raise typer.Exit(1)


def report_spec(spec: Path, *, as_json: bool) -> bool:
    """Print what is wrong with ``spec``, or its summary; return whether it is in order."""
    checked = check(spec)
    if checked.summary is not None and (refused := _refused(spec)) is not None:
        checked = Checked((refused,), None)
    if as_json:
        print_json(checked.as_json())
    elif checked.summary is not None:
        out.print(render(checked.summary))
    else:
        err.print(Text(format_problems(checked.problems)), soft_wrap=True, highlight=False)
        count = len(checked.problems)
        err.print(f"{count} problem{'s' if count > 1 else ''}", style="bold red")
    return checked.summary is not None


def _refused(spec: Path) -> Problem | None:
    """Return what `tabularium run` would refuse in a spec that is in order, once it tried it without data."""
    from tabularium.tasks.dry_run import dry_run_spec
    from tabularium.tasks.runtime.run import without_data

    try:
        with without_data(load_spec(spec)) as run:
            dry_run_spec(run)
    except InternalError:
        raise
    except TabulariumError as error:
        return Problem(None, error.where, error.what, error.mend, spec.name)
    return None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check", epilog="Example:  tabularium check census.yaml")(check_spec)
