"""Static pages over published releases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._series import Series
from tabularium._shown import Shown
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium.tasks.site.offered import ReleaseCatalogue


class Site(Shown):
    """Pages that were written. Made by :func:`site`."""

    def __init__(self, folder: Path, release_catalogue: ReleaseCatalogue) -> None:
        self.folder, self.index, self._shelf = folder, folder / "index.html", release_catalogue

    @property
    def releases(self) -> DataFrame:
        """The releases that are shown: ``product``, ``period``, ``release``, ``state``.

        ``state`` is current, superseded or withdrawn.
        """
        import pandas as pd

        rows = [
            (
                release.certificate.product,
                release.certificate.period,
                release.certificate.release_id,
                release.state,
            )
            for release in self._shelf.releases
        ]
        return pd.DataFrame(rows, columns=["product", "period", "release", "state"])

    @property
    def not_shown(self) -> DataFrame:
        """What lies among the releases and cannot be shown: ``where``, and ``why``."""
        import pandas as pd

        rows = [(row.where, row.why) for row in self._shelf.not_shown]
        return pd.DataFrame(rows, columns=["where", "why"])

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: the folder, how many products and releases, and what is not shown."""
        return {
            "site": str(self.folder),
            "products": len(self._shelf.products),
            "releases": len(list(self._shelf.releases)),
            "not_shown": [vars(row) for row in self._shelf.not_shown],
        }

    def _headline(self) -> str:
        summary = self.as_dict()
        return f"{summary['releases']} releases of {summary['products']} products: {self.index}"

    def _rows(self) -> DataFrame:
        return self.releases


def site(
    releases: str | os.PathLike[str] | Series | Sequence[str | os.PathLike[str] | Series],
    out: str | os.PathLike[str],
    *,
    address: str = "",
    copy: bool = False,
) -> Site:
    """Write a web site over releases: products, periods, search, downloads, feeds, budget over time.

    Only certificates and indexes are read. The same releases give the same bytes.

    Parameters
    ----------
    releases
        The folder that holds ``PRODUCT/PERIOD/RELEASE``; or, of the products in it, a series, or several
        series and folders of products. Superseded and withdrawn releases of a product are shown too.
    out
        The folder to write, next to the releases; a site that is there is replaced.
    address
        Where ``out`` will be served: then feeds hold whole addresses.
    copy
        Copy the releases into the site, each file compared with its digest, instead of linking to them.

    Returns
    -------
    Site
        What is shown, and what is not and why.

    Raises
    ------
    InputError
        A folder or the address is not what it must be, the products lie in several folders, no release can
        be shown, or the site cannot be written.

    Examples
    --------
    >>> site("releases", "site")                                                 # doctest: +SKIP
    >>> site(tabularium.series("releases/people"), "site", copy=True)            # doctest: +SKIP
    """
    from tabularium.tasks.site.write_site import write_site

    folder, products = _of_products(releases)
    release_catalogue = write_site(folder, Path(out), address=address, copy=copy, products=products)
    return Site(Path(out), release_catalogue)


def _of_products(
    releases: str | os.PathLike[str] | Series | Sequence[str | os.PathLike[str] | Series],
) -> tuple[Path, list[str] | None]:
    """Return the folder of releases, and which products in it are meant; None for all."""
    if isinstance(releases, str | os.PathLike):
        return Path(releases), None
    given = [releases] if isinstance(releases, Series) else releases
    places = [Path(os.path.realpath(item.folder if isinstance(item, Series) else item)) for item in given]
    if gone := [path for path in places if not path.is_dir()]:
        raise InputError("there is no such folder", where=str(gone[0]), hint="name the folder of a product")
    folders = {path.parent for path in places}
    if len(folders) != 1:
        raise InputError(
            f"products of {len(folders)} folders of releases",
            where="releases",
            hint="name products that lie in one folder; pages link to all from there",
        )
    return folders.pop(), [path.name for path in places]
