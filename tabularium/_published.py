"""What was published, as the ledger has it, and where it lies."""

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
    release, product, period, account
        What it is.
    amount
        What all its charges cost.
    at
        When, in UTC.
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

    found = []
    for charges in _by_period(_published(ledger, product)).values():
        gone = {each[-1].release_id: ledger.withdrawal(each[-1].release_id) for each in charges}
        after = superseding([each[-1] for each in charges if gone[each[-1].release_id] is None])
        for each in charges:
            release = each[-1].release_id
            found.append(_as_published(each, gone[release], after.get(release), home, folders))
    return sorted(found, key=lambda each: each.at, reverse=True)


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
    if home is not None and (own := published_in(home, release)) is not None:
        places.insert(0, own)
    candidates = (place / product / period / release for place in places)
    return next((each for each in candidates if each.is_dir()), None)


def _published(ledger: Ledger, product: str | None = None) -> Iterator[Charge]:
    for account in ledger.accounts():
        for charge in ledger.each_charge(account.name):
            if charge.state == "published" and product in (None, charge.product):
                yield charge


def _by_period(charges: Iterable[Charge]) -> dict[tuple[str, str, str], list[list[Charge]]]:
    """Return the charges of each release, its own last, by account, product and period, the oldest first.

    The charges of one release name one certificate.
    """
    periods: defaultdict[tuple[str, str, str], dict[str | None, list[Charge]]] = defaultdict(dict)
    for each in sorted(charges, key=lambda each: each.seq):
        period = periods[each.account, each.product, each.period]
        period.setdefault(each.publication_digest, []).append(each)
    return {key: list(found.values()) for key, found in periods.items()}


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
        sum((each.amount for each in charges), Fraction(0)),
        main.changed_at,
        state,
        reason,
        main.statement is not None,
        folder_of(main.release_id, main.product, main.period, home, folders),
    )
