"""The releases of a folder as pages offer them: certificates and indexes are read, tables are not.

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
from tabularium.validations.spec.kinds import PeriodName, ProductName
from tabularium.validations.spec.model import ReleaseSpec

Read = TypeVar("Read", bound=BaseModel)


@dataclass(frozen=True)
class PublishedRelease:
    """A release that was published and lies there.

    Attributes
    ----------
    folder
        Where it lies.
    said
        What its certificate says.
    spec
        The spec in it.
    state, ended
        What the index of its period says: current, superseded or withdrawn, since when and why.
    sizes
        Bytes of each file that its certificate names, and of its signed statement if it has one.
    largest
        Bytes that none of its files can have more of.
    """

    folder: Path
    said: Certificate
    spec: ReleaseSpec
    state: str
    ended: Ended | None
    sizes: dict[str, int]
    largest: int


@dataclass(frozen=True)
class NotShown:
    """Something that lies among the releases and cannot be shown: where, and why."""

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
        return next((each for each in self.releases if each.state == "current"), None)

    @property
    def newest(self) -> PublishedRelease:
        """The release to use, else the newest of those that are there."""
        return self.current or self.releases[0]


@dataclass(frozen=True)
class Product:
    """The periods of one product, the newest first."""

    name: str
    periods: list[Period]

    @property
    def newest(self) -> PublishedRelease:
        """The release that says best what the product is today."""
        return next((each.current for each in self.periods if each.current), self.periods[0].newest)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.newest.said.about.title or self.name


@dataclass
class ReleaseCatalogue:
    """All that lies in a folder of releases."""

    products: list[Product] = field(default_factory=list)
    not_shown: list[NotShown] = field(default_factory=list)

    @property
    def releases(self) -> Iterator[PublishedRelease]:
        """Every release that is shown."""
        return (each for product in self.products for period in product.periods for each in period.releases)


class _Unlistable(Exception):
    """Why something cannot be shown."""


@bare_errors
def release_catalogue(folder: Path, products: Collection[str] | None = None) -> ReleaseCatalogue:
    """Read all releases of a folder that holds ``PRODUCT/PERIOD/RELEASE``, or those of some products.

    Raises
    ------
    InputError
        The folder cannot be read, or no release lies in it that can.
    """
    found = ReleaseCatalogue()
    with os_errors_as(InputError, "cannot be read ({reason})", where=folder, hint="name a folder"):
        for product in _folders(folder):
            if products is not None and product.name not in products:
                continue
            shown = product_in(product, found.not_shown)
            if shown is not None:
                found.products.append(shown)
    if not found.products:
        first = (
            f"; the first of {len(found.not_shown)}: {_line(found.not_shown[0])}" if found.not_shown else ""
        )
        raise InputError(
            f"holds no release that can be shown{first}",
            where=str(folder),
            hint="name the folder that holds PRODUCT/PERIOD/RELEASE",
        )
    found.products.sort(key=lambda each: (each.title.casefold(), each.name))
    return found


def product_in(folder: Path, not_shown: list[NotShown]) -> Product | None:
    """Read the releases of a folder that holds ``PERIOD/RELEASE``; note what cannot be shown.

    Raises
    ------
    OSError
        The folder cannot be read.
    """
    periods = []
    for place in _folders(folder):
        releases = list(_releases(place, not_shown))
        if releases:
            periods.append(Period(place.name, releases))
    return Product(folder.name, sorted(periods, key=_when, reverse=True)) if periods else None


def _line(each: NotShown) -> str:
    return f"{each.where}: {each.why}"


def _when(period: Period) -> tuple[date, str]:
    days = first_and_last(period.name)
    return (days[0] if days else date.min, period.name)


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted; neither links nor what is hidden."""
    return sorted(
        each
        for each in folder.iterdir()
        if not each.name.startswith(".") and not each.is_symlink() and each.is_dir()
    )


def _releases(place: Path, not_shown: list[NotShown]) -> Iterator[PublishedRelease]:
    """Go through the releases of a period; note what cannot be shown."""
    there, at = {each.name: each for each in _folders(place)}, f"{place.parent.name}/{place.name}"
    indexed: dict[str, Indexed] = {}
    if not there and not os.path.lexists(place / INDEX):
        return
    try:
        index = _read(Index, _document(place / INDEX), INDEX)
        if (index.product, index.period) != (place.parent.name, place.name):
            raise _Unlistable(f"{INDEX} is of another period")
        indexed = {each.release_id: each for each in index.releases}
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
    """Return what sorts names as the index does, backwards; what it does not name comes last."""
    places = {name: -place for place, name in enumerate(indexed)}
    return lambda name: (places.get(name, 1), name)


def _offered(folder: Path, entry: Indexed) -> PublishedRelease:
    raw = _document(folder / CERTIFICATE)
    if hashlib.sha256(raw).hexdigest() != entry.certificate:
        raise _Unlistable(f"{CERTIFICATE} is not the one that {INDEX} names")
    try:
        said = Certificate.read(raw)
    except Unreadable as error:
        raise _Unlistable(f"{CERTIFICATE} {error}") from None
    if (said.product, said.period, said.release_id) != (*folder.parts[-3:],):
        raise _Unlistable("it is another release than its folder says")
    if odd := next((name for name in said.files if not is_valid_stored_label(name, LONGEST_TEXT)), None):
        raise _Unlistable(f"{CERTIFICATE} names a file that no page can name: {odd!a}")
    try:
        largest = largest_file(said)
        signed = os.path.lexists(folder / STATEMENT)
        sizes = {name: _size(folder, name, largest) for name in (*said.files, *[STATEMENT] * signed)}
        verify_certificate(folder / CERTIFICATE)
    except Unreadable as error:
        raise _Unlistable(str(error)) from None
    except PublicationError as error:
        raise _Unlistable(error.what) from None
    return PublishedRelease(
        folder, said, ReleaseSpec.model_validate(said.spec), entry.state, entry.ended, sizes, largest
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
        where = ".".join(str(each) for each in error.errors(include_url=False)[0]["loc"])
    except BadValue as error:
        where = error.where
    raise _Unlistable(f"{name} is not what it should be{f': {where}' if where else ''}")


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Ended(_Said):
    """What a release has in its place since, or who withdrew it."""

    at: Time
    reason: Line | Literal[""] | None


class Indexed(_Said):
    """A release in the index of its period."""

    release_id: ReleaseId
    certificate: Sha256
    state: Literal["current", "superseded", "withdrawn"]
    ended: Ended | None


class Index(_Said):
    """The index of a period."""

    format: Literal[1]
    product: ProductName
    period: PeriodName
    releases: tuple[Indexed, ...]
