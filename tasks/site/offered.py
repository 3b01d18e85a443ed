"""The catalogue of releases in a folder, from certificates and indexes; tables are not read.

A certificate is held against itself, and not against the signature or the ledger: the pages say so. A release
that cannot be shown is never passed over: it is listed with the reason.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tabularium.ledger import BadValue
from tabularium.ledger.names import LONGEST_TEXT, is_valid_stored_label
from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.arrival.inboxes import first_and_last
from tabularium.tasks.public_folder import document, largest_file, named
from tabularium.tasks.publish.period_index import INDEX
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.certificate.value_kinds import Line, ReleaseId, Sha256, Time
from tabularium.validations.public_files import Unreadable, open_plain
from tabularium.validations.redaction import bare_errors, os_errors_as
from tabularium.validations.release_spec.kinds import PeriodName, ProductName
from tabularium.validations.release_spec.model import ReleaseSpec

Read = TypeVar("Read", bound=BaseModel)


@dataclass(frozen=True)
class PublishedRelease:
    """A published release in the folder.

    Attributes
    ----------
    state, ended
        What the index of its period says: current, superseded or withdrawn, since when and why.
    sizes
        Bytes of each file that its certificate names, and of its signed statement if it has one.
    largest
        Bytes that none of its files can have more of.
    """

    folder: Path
    certificate: Certificate
    spec: ReleaseSpec
    state: str
    ended: Ended | None
    sizes: dict[str, int]
    largest: int


@dataclass(frozen=True)
class NotShown:
    """An entry of the folder that cannot be shown: its path, and the reason."""

    where: str
    why: str


@dataclass(frozen=True)
class Period:
    """The releases of one period, the newest first."""

    name: str
    releases: list[PublishedRelease]

    @cached_property
    def current(self) -> PublishedRelease | None:
        """The release to use, if there is one."""
        return next((release for release in self.releases if release.state == "current"), None)

    @property
    def newest(self) -> PublishedRelease:
        """The release to use, else the newest one."""
        return self.current or self.releases[0]


@dataclass(frozen=True)
class Product:
    """The periods of one product, the newest first."""

    name: str
    periods: list[Period]

    @property
    def newest(self) -> PublishedRelease:
        """The release that describes the product of today."""
        return next((period.current for period in self.periods if period.current), self.periods[0].newest)

    @property
    def title(self) -> str:
        """The title for people."""
        return self.newest.certificate.about.title or self.name


@dataclass
class ReleaseCatalogue:
    """All releases of a folder, and the entries that cannot be shown."""

    products: list[Product] = field(default_factory=list)
    not_shown: list[NotShown] = field(default_factory=list)

    @property
    def releases(self) -> Iterator[PublishedRelease]:
        """Every release that is shown."""
        return (
            release for product in self.products for period in product.periods for release in period.releases
        )


class _Unlistable(Exception):
    """The reason why an entry cannot be shown."""


@bare_errors
def release_catalogue(folder: Path, products: Collection[str] | None = None) -> ReleaseCatalogue:
    """Read all releases of a folder that holds ``PRODUCT/PERIOD/RELEASE``, or those of some products.

    Raises
    ------
    InputError
        The folder cannot be read, or no release lies in it that can.
    """
    catalogue = ReleaseCatalogue()
    with os_errors_as(InputError, "cannot be read ({reason})", where=folder, hint="name a folder"):
        for product in _folders(folder):
            if products is not None and product.name not in products:
                continue
            shown = product_in(product, catalogue.not_shown)
            if shown is not None:
                catalogue.products.append(shown)
    if not catalogue.products:
        first = (
            f"; the first of {len(catalogue.not_shown)}: {_line(catalogue.not_shown[0])}"
            if catalogue.not_shown
            else ""
        )
        raise InputError(
            f"holds no release that can be shown{first}",
            where=str(folder),
            hint="name the folder that holds PRODUCT/PERIOD/RELEASE",
        )
    catalogue.products.sort(key=lambda product: (product.title.casefold(), product.name))
    return catalogue


def product_in(folder: Path, not_shown: list[NotShown]) -> Product | None:
    """Read the releases of a folder that holds ``PERIOD/RELEASE``; note what cannot be shown.

    Raises
    ------
    OSError
        The folder cannot be read.
    """
    periods = []
    for subfolder in _folders(folder):
        releases = list(_releases(subfolder, not_shown))
        if releases:
            periods.append(Period(subfolder.name, releases))
    return Product(folder.name, sorted(periods, key=_when, reverse=True)) if periods else None


def _line(item: NotShown) -> str:
    return f"{item.where}: {item.why}"


def _when(period: Period) -> tuple[date, str]:
    days = first_and_last(period.name)
    return (days[0] if days else date.min, period.name)


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, without links and hidden ones."""
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and not path.is_symlink() and path.is_dir()
    )


def _releases(folder: Path, not_shown: list[NotShown]) -> Iterator[PublishedRelease]:
    """Yield the releases of a period; note what cannot be shown."""
    there, at = {folder.name: folder for folder in _folders(folder)}, f"{folder.parent.name}/{folder.name}"
    indexed: dict[str, Indexed] = {}
    if not there and not os.path.lexists(folder / INDEX):
        return
    try:
        index = _read(Index, _document(folder / INDEX), INDEX)
        if (index.product, index.period) != (folder.parent.name, folder.name):
            raise _Unlistable(f"{INDEX} is of another period")
        indexed = {release.release_id: release for release in index.releases}
    except _Unlistable as unfit:
        not_shown.append(NotShown(at, f"{unfit}; without it nobody knows what is current"))
        return
    for name in sorted({*there, *indexed}, key=_newest_first(indexed)):
        try:
            if name not in indexed:
                raise _Unlistable(f"{INDEX} does not name it")
            if name not in there:
                raise _Unlistable(f"{INDEX} names it, and it is not there")
            yield _offered(there[name], indexed[name])
        except _Unlistable as unfit:
            not_shown.append(NotShown(f"{at}/{name}", str(unfit)))


def _newest_first(indexed: dict[str, Indexed]) -> Callable[[str], tuple[int, str]]:
    """Return a sort key for names in reverse order of the index; names not in it come last."""
    places = {name: -index for index, name in enumerate(indexed)}
    return lambda name: (places.get(name, 1), name)


def _offered(folder: Path, entry: Indexed) -> PublishedRelease:
    raw = _document(folder / CERTIFICATE)
    if hashlib.sha256(raw).hexdigest() != entry.certificate:
        raise _Unlistable(f"{CERTIFICATE} is not the one that {INDEX} names")
    try:
        certificate = Certificate.read(raw)
    except Unreadable as error:
        raise _Unlistable(f"{CERTIFICATE} {error}") from None
    if (certificate.product, certificate.period, certificate.release_id) != (*folder.parts[-3:],):
        raise _Unlistable("it is another release than its folder says")
    if odd := next(
        (name for name in certificate.files if not is_valid_stored_label(name, LONGEST_TEXT)), None
    ):
        raise _Unlistable(f"{CERTIFICATE} names a file that no page can name: {odd!a}")
    try:
        largest = largest_file(certificate)
        signed = os.path.lexists(folder / STATEMENT)
        sizes = {name: _size(folder, name, largest) for name in (*certificate.files, *[STATEMENT] * signed)}
        verify_certificate(folder / CERTIFICATE)
    except Unreadable as error:
        raise _Unlistable(str(error)) from None
    except PublicationError as error:
        raise _Unlistable(error.what) from None
    return PublishedRelease(
        folder,
        certificate,
        ReleaseSpec.model_validate(certificate.spec),
        entry.state,
        entry.ended,
        sizes,
        largest,
    )


def _size(folder: Path, name: str, largest: int) -> int:
    with named(name), open_plain(folder / name, largest) as file:
        return os.fstat(file.fileno()).st_size


def _document(path: Path) -> bytes:
    try:
        raw, _ = document(path.parent, path.name)
    except Unreadable as error:
        raise _Unlistable(str(error)) from None
    return raw


def _read(kind: type[Read], raw: bytes, name: str) -> Read:
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
    except BadValue as error:
        where = error.where
    raise _Unlistable(f"{name} is not what it should be{f': {where}' if where else ''}")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Ended(_Record):
    """The end of a release: its successor, or its withdrawal."""

    at: Time
    reason: Line | Literal[""] | None


class Indexed(_Record):
    """A release in the index of its period."""

    release_id: ReleaseId
    certificate: Sha256
    state: Literal["current", "superseded", "withdrawn"]
    ended: Ended | None


class Index(_Record):
    """The index of a period."""

    format: Literal[1]
    product: ProductName
    period: PeriodName
    releases: tuple[Indexed, ...]
