"""``tabularium check``: every mistake of a spec at once, or what it will publish and cost."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from flows.cli.terminal import err, out, print_json
from validations.spec.problems import format_problems
from validations.spec.summary import check, render


def report_spec(spec: Path, *, as_json: bool) -> bool:
    """Print what is wrong with ``spec``, or its summary; return whether it is in order."""
    checked = check(spec)
    if as_json:
        print_json(checked.as_json())
    elif checked.summary is not None:
        out.print(render(checked.summary))
    else:
        err.print(Text(format_problems(checked.problems)), soft_wrap=True, highlight=False)
        count = len(checked.problems)
        err.print(f"{count} problem{'s' if count > 1 else ''}", style="bold red")
    return checked.summary is not None
