"""A release, made in this process."""

from __future__ import annotations

import os
from pathlib import Path

from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._spec import Spec


def publish(
    spec: Spec | str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    period: str | None = None,
    home: str | os.PathLike[str] | None = None,
    revises: str | None = None,
    same_input: bool = False,
) -> Release:
    """Publish what a spec asks for, in this process. Asked for twice, it is published and paid once.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    source
        A file, glob, folder or URL to read instead of the spec's source.
    period
        Instead of the spec's.
    home
        The home of the installation; TABULARIUM_HOME or ``~/.tabularium`` unless said.
    revises
        Why what was published before is published again.
    same_input
        Whether the input may be one that was released for another period of the product.

    Raises
    ------
    NotApproved
        The account wants an officer's approval, and there is none.
    BudgetExhausted
        The account cannot pay.
    DataRefused
        The data break a rule of the spec.
    TabulariumError
        Anything else that went wrong, in one line without data.
    """
    from tabularium.flows.release_chain import release_tables
    from tabularium.tasks.runtime.run import Request, load

    path, named = (spec.path, spec._period) if isinstance(spec, Spec) else (Path(spec), None)
    where = None if source is None else os.fspath(source)
    request = Request.of(
        *(path, where, period or named, None if home is None else Path(home), revises),
        same_input=same_input,
    )
    return open_release(release_tables(request, load(request)).folder)
