"""A first spec for a file of data."""

from __future__ import annotations

import os
from pathlib import Path

from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors, os_errors_as


@bare_errors
def init(data: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write a first spec from the names and types of the columns of a file. No record of it is read.

    The first line of a CSV file is taken for the names: see that it is no record. ``FILL IN`` stands where
    something is to be decided; :func:`check` says what is left. Labels that a file carries are written as
    comments: they may be of just the values that occur.

    Parameters
    ----------
    data
        A CSV or Parquet file, or one of SPSS, SAS or Stata (extra ``stat``).
    out
        The new spec; ``NAME.yaml`` in the current folder unless said.

    Returns
    -------
    The spec

    Raises
    ------
    InputError
        The file cannot be read, its columns have no names for a spec or are all identifiers, or the spec is
        there already.

    Examples
    --------
    >>> init("people.parquet")                                  # doctest: +SKIP
    """
    from tabularium.tasks.begin.first_spec import first_spec, outline_of, product_of

    file = Path(data)
    target = Path(f"{product_of(file)}.yaml" if out is None else out)
    text = first_spec(outline_of(file), os.path.relpath(file, target.absolute().parent))
    if target.exists():
        raise InputError("this file exists", where=str(target), hint="name a new one with --out")
    with (
        os_errors_as(
            InputError, "cannot be written ({reason})", where=target, hint="name another with --out"
        ),
        target.open("x", encoding="utf-8") as written,
    ):
        written.write(text)
    return target
