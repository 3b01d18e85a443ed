"""A release, made in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._spec import Spec
from tabularium.tasks.runtime.progress import NullReporter, reporting_to


def publish(
    spec: Spec | str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | object | None = None,
    period: str | None = None,
    home: str | os.PathLike[str] | None = None,
    revises: str | None = None,
    same_input: bool = False,
    notes: Callable[[str], None] | None = None,
) -> Release:
    """Publish what a spec asks for, in this process. Asked for twice, it is published and paid once.

    How many records were left out, and the like, is noted on standard error, as on the command line. Such
    notes follow from the data: clear the output of a notebook before it leaves the agency.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    source
        A file, glob, folder or URL to read instead of the spec's source; or a table: a DataFrame of pandas or
        Polars, or what else speaks Arrow. A table is written into the secure workspace and then read as a
        Parquet file; its categories are no domain.
    period
        Instead of the spec's.
    home
        The home of the installation; by default TABULARIUM_HOME or ``~/.tabularium``.
    revises
        Why what was published before is published again.
    same_input
        Whether the input may be one that was released for another period of the product.
    notes
        Called with each note instead.

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
    with _named(source) as where:
        request = Request.of(
            *(path, where, period or named, None if home is None else Path(home), revises),
            same_input=same_input,
        )
        with reporting_to(_Notes(tell=notes or _on_standard_error)):
            return open_release(release_tables(request, load(request)).folder)


@contextmanager
def _named(source: str | os.PathLike[str] | object | None) -> Iterator[str | None]:
    """Name a source for the block."""
    if source is None or isinstance(source, str | os.PathLike):
        yield None if source is None else os.fspath(source)
        return
    from tabularium.tasks.ingest.ingest import handed_over

    with handed_over(source) as name:
        yield name


@dataclass
class _Notes(NullReporter):
    """Hands on what the caller should know."""

    tell: Callable[[str], None] = lambda _: None

    def noted(self, text: str) -> None:
        """Hand on a note."""
        self.tell(text)


def _on_standard_error(note: str) -> None:
    sys.stderr.write(f"{note}\n")


# A spec tried on made-up records.


def rehearse(
    spec: Spec | str | os.PathLike[str],
    *,
    rows: int | None = None,
    like: Release | str | os.PathLike[str] | None = None,
    period: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 1,
) -> Release:
    """Try a spec on made-up records, through the whole chain: noise, post-processing, margins, files, report.

    It opens no source, no private look-up, no earlier release and no home, and spends nothing. What comes out
    says everywhere that it is a rehearsal. The noise is like in a release, and so are margins that depend on
    noise only; what depends on counts (shares of small cells, rates, mechanisms that look for clusters) is as
    good as the records are like the real ones.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    rows
        How many records, at most 100 million; by default as many as ``like`` counts, or the spec expects
        under ``size`` (up to a million), or 10 000. The result says how many there are, and why.
    like
        A published release whose tables the records are to be like; by default evenly over all cells, which
        is wrong for sparse tables.
    period
        Instead of the spec's.
    folder
        Where it goes; by default ``rehearsal`` next to the spec. A rehearsal that is there is replaced,
        unless other files lie in its folder.
    seed
        The same seed gives the same records; the noise is fresh. A whole number from 0.

    Raises
    ------
    SpecError
        The spec is not in order.
    InputError
        Something else lies in the folder, it cannot be written, ``rows`` or ``seed`` is out of range, or
        ``like`` has no table with a column of the spec.

    Examples
    --------
    >>> sample = rehearse("census.yaml", rows=50_000)           # doctest: +SKIP
    >>> sample["age_by_sex"].to_pandas()                        # doctest: +SKIP
    """
    from tabularium.flows.rehearsing.rehearse import rehearse as made

    path, named = (spec.path, spec._period) if isinstance(spec, Spec) else (Path(spec), None)
    release = like if isinstance(like, Release) or like is None else open_release(like)
    return open_release(
        made(
            path,
            None if folder is None else Path(folder),
            period=period or named,
            rows=rows,
            like=None if release is None else release._published("like"),
            seed=seed,
        )
    )
