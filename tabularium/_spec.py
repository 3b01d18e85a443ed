"""A release spec that is in order."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors, os_errors_as

if TYPE_CHECKING:
    from tabularium.validations.release_spec.load import Loaded


class Spec:
    """What is to be published and at what price. Made by :func:`load`.

    Attributes
    ----------
    path
        The file, absolute.
    """

    def __init__(self, loaded: Loaded, period: str | None) -> None:
        self._loaded, self._period = loaded, period
        self.path: Path = loaded.path

    @property
    def product(self) -> str:
        """The product."""
        return self._loaded.spec.product

    @property
    def period(self) -> str:
        """The period."""
        return self._loaded.spec.period

    @property
    def dataset(self) -> str:
        """The account of the ledger that pays."""
        return self._loaded.spec.dataset

    @property
    def budget(self) -> Fraction:
        """What it costs: ε, or ρ where the spec says so."""
        return self._loaded.spec.privacy.budget

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(each.name for each in self._loaded.spec.tables)

    @property
    def digest(self) -> str:
        """What names it in approvals and charges: SHA-256 of what is published and at what price."""
        return self._loaded.digest

    def __repr__(self) -> str:
        price = f"{self._loaded.spec.privacy.symbol} = {self.budget}"
        return (
            f"spec {self.product} {self.period}: {', '.join(self.tables)}; {price} of account {self.dataset}"
        )


def load(path: str | os.PathLike[str], *, period: str | None = None) -> Spec:
    """Read a release spec and its code lists. Opens no data.

    Parameters
    ----------
    period
        Instead of the one in the file.

    Raises
    ------
    SpecError
        Its ``problems`` are all that is wrong, each with ``line``, ``field``, ``what`` and ``hint``.
    """
    from tabularium.validations.release_spec.load import load_spec

    return Spec(load_spec(path, period=period), period)


# A first spec for a file of data.


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
        The new spec; by default ``NAME.yaml`` in the current folder.

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
    if os.path.lexists(target):
        raise InputError("this file exists", where=str(target), hint="name a new one with --out")
    with (
        os_errors_as(
            InputError, "cannot be written ({reason})", where=target, hint="name another with --out"
        ),
        target.open("x", encoding="utf-8") as written,
    ):
        written.write(text)
    return target
