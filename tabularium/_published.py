"""Published releases as the ledger has them, and their folders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabularium.ledger import Charge, Ledger, Withdrawal
    from tabularium.tasks.runtime.home import Home


@dataclass(frozen=True)
class Published:
    """A release that was published. Made by :meth:`Books.releases`.

    Attributes
    ----------
    amount
        What all its charges cost.
    state
        ``current``, ``superseded`` by a later one of its period, or ``withdrawn``.
    reason
        Why it was withdrawn, or what the revision that superseded it is for; else empty.
    signed
        Whether a statement was signed with it.
    folder
        Where it lies, if that is known here and it is there.
    """

    release: str
    product: str
    period: str
    account: str
    amount: Fraction
    at: str
    state: str
    reason: str
    signed: bool
    folder: Path | None


def releases_of(
    ledger: Ledger, product: str, home: Home | None, folders: Sequence[Path] = ()
) -> list[Published]:
    """Return the releases of a product, the newest first."""
    from tabularium.tasks.publish.period_index import superseding

    result = []
    for charges in _by_period(_published(ledger, product)).values():
        gone = {versions[-1].release_id: ledger.withdrawal(versions[-1].release_id) for versions in charges}
        after = superseding([versions[-1] for versions in charges if gone[versions[-1].release_id] is None])
        for versions in charges:
            release = versions[-1].release_id
            result.append(_as_published(versions, gone[release], after.get(release), home, folders))
    return sorted(result, key=lambda release: release.at, reverse=True)


def newest_releases(
    ledger: Ledger, home: Home | None, folders: Sequence[Path] = ()
) -> list[tuple[Published, int]]:
    """Return the newest release of each product, and how many it has, sorted by product."""
    newest: dict[str, list[Charge]] = {}
    number: defaultdict[str, int] = defaultdict(int)
    for (_, product, _), charges in _by_period(_published(ledger)).items():
        number[product] += len(charges)
        if product not in newest or newest[product][-1].seq < charges[-1][-1].seq:
            newest[product] = charges[-1]
    return [
        (
            _as_published(
                newest[product], ledger.withdrawal(newest[product][-1].release_id), None, home, folders
            ),
            number[product],
        )
        for product in sorted(newest)
    ]


def folder_of(
    release: str, product: str, period: str, home: Home | None, folders: Iterable[Path]
) -> Path | None:
    """Return where a release, or a draft, lies in folders that hold ``PRODUCT/PERIOD/RELEASE``."""
    from tabularium.tasks.publish.release_folder import published_in

    places = [*folders]
    if home is not None and (folder := published_in(home, release)) is not None:
        places.insert(0, folder)
    candidates = (folder / product / period / release for folder in places)
    return next((candidate for candidate in candidates if candidate.is_dir()), None)


def _published(ledger: Ledger, product: str | None = None) -> Iterator[Charge]:
    for account in ledger.accounts():
        for charge in ledger.all_charges(account.name):
            if charge.state == "published" and product in (None, charge.product):
                yield charge


def _by_period(charges: Iterable[Charge]) -> dict[tuple[str, str, str], list[list[Charge]]]:
    """Return the charges of each release, its own last, by account, product and period, the oldest first.

    The charges of one release name one certificate.
    """
    periods: defaultdict[tuple[str, str, str], dict[str | None, list[Charge]]] = defaultdict(dict)
    for charge in sorted(charges, key=lambda charge: charge.seq):
        period = periods[charge.account, charge.product, charge.period]
        period.setdefault(charge.publication_digest, []).append(charge)
    return {key: list(versions.values()) for key, versions in periods.items()}


def _as_published(
    charges: Sequence[Charge],
    gone: Withdrawal | None,
    after: Charge | None,
    home: Home | None,
    folders: Sequence[Path],
) -> Published:
    main = charges[-1]
    state, reason = "current", ""
    if gone is not None:
        state, reason = "withdrawn", gone.reason
    elif after is not None:
        state, reason = "superseded", after.revises or ""
    return Published(
        main.release_id,
        main.product,
        main.period,
        main.account,
        sum((charge.amount for charge in charges), Fraction(0)),
        main.changed_at,
        state,
        reason,
        main.statement is not None,
        folder_of(main.release_id, main.product, main.period, home, folders),
    )
