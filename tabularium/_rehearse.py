"""A spec tried on made-up records."""

from __future__ import annotations

import os
from pathlib import Path

from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._spec import Spec


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
    says everywhere that it is a rehearsal. The noise is that of a release, and so are margins that hang on
    noise alone; what hangs on counts (shares of small cells, rates, mechanisms that look for clusters) is as
    good as the records are like the real ones.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    rows
        How many records, at most 100 million; unless said as many as ``like`` counts, or the spec expects
        under ``size`` (up to a million), or 10 000. The result says how many there are, and why.
    like
        A published release whose tables the records are to be like; evenly over all cells unless said, which
        is wrong for sparse tables.
    period
        Instead of the spec's.
    folder
        Where it goes; ``rehearsal`` beside the spec unless said. A rehearsal that is there is replaced,
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
