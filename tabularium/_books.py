"""The ledger, to be looked at."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tabularium._shown import Shown
from tabularium.ledger import Ledger
from tabularium.ledger.amounts import parse_amount
from tabularium.ledger.records import Charge, Key, Terms
from tabularium.mechanisms.errors import InputError, TabulariumError

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium._officer import Decision
    from tabularium._published import Published
    from tabularium._release import Release
    from tabularium._waiting import Waiting
    from tabularium.flows.operations.deployments.foretold import Foretold
    from tabularium.ledger import Account, Charge, Entry, Ledger
    from tabularium.ledger.records import Draft, Key, Scope, Usage, Withdrawal
    from tabularium.ledger.review import AccountView, NotComposable, UnitView
    from tabularium.tasks.runtime.home import Home


class Books(Shown):
    """The accounts of a ledger, as they stand when they are asked for. Nothing here changes them.

    Each question opens the ledger again; ask many inside ``with open_ledger() as books:``.
    """

    @property
    def option(self) -> str:
        """What a command must add to be about this ledger: ``--home …``, or nothing for the default."""
        return "" if self._home is None else self._home.option

    def __init__(self, home: Home | None, export: Path | None = None) -> None:
        self._home, self._export = home, export
        self._held: tuple[ExitStack, Ledger] | None = None
        self._signers: Mapping[str, Key] | None = None

    @contextmanager
    def _reading(self) -> Iterator[Ledger]:
        from tabularium.ledger import Ledger
        from tabularium.ledger.export import restore

        if self._held is not None:
            yield self._held[1]
        elif self._home is not None:
            with Ledger.connect(self._home.ledger_url, make=False) as ledger:
                yield ledger
        else:
            assert self._export is not None  # noqa: S101 - one of both is given
            with TemporaryDirectory(prefix="tabularium-books-") as folder:
                url = f"sqlite:///{Path(folder, 'ledger.db')}"
                restore(self._export, url, scratch=True)
                with Ledger.connect(url) as ledger:
                    yield ledger

    def __enter__(self) -> Books:
        stack = ExitStack()
        self._held = stack, stack.enter_context(self._reading())
        return self

    def __exit__(self, *_exception: object) -> None:
        assert self._held is not None  # noqa: S101 - entered
        stack, self._held, self._signers = self._held[0], None, None
        stack.close()

    @property
    def name(self) -> str:
        """What the ledger is called in messages."""
        if self._export is not None:
            return str(self._export)
        with self._reading() as ledger:
            return ledger.name

    @property
    def warnings(self) -> list[str]:
        """What a reader should know of this ledger: why it is read-only, that nobody witnesses it."""
        from tabularium.ledger.measurement.store import MeasurementStore
        from tabularium.ledger.witness import NO_SECOND

        if self._home is None:
            return []
        with self._reading() as ledger:
            ledger.expect(MeasurementStore(self._home.measurements).heads())
            lines = [] if ledger.read_only is None else [f"This ledger is read-only: {ledger.read_only}"]
            return lines if ledger.witnessed_elsewhere else [*lines, f"There is {NO_SECOND}."]

    @property
    def key_option(self) -> str:
        """What a command that opens an account needs besides: `` --key FILE`` while a key is enrolled."""
        with self._reading() as ledger:
            return ledger.key_option()

    @property
    def accounts(self) -> list[Account]:
        """Every account: its terms, and ``cap``, ``spent``, ``reserved``, ``left`` as exact fractions."""
        with self._reading() as ledger:
            return list(ledger.accounts())

    def account(self, name: str) -> Account:
        """Return one account.

        Raises
        ------
        InputError
            There is no such account.
        """
        from tabularium.ledger.refusals import UnknownAccount

        with self._reading() as ledger:
            try:
                return ledger.account(name)
            except UnknownAccount:
                known = ", ".join(item.name for item in ledger.accounts())
        raise InputError("no such account", where=f"account {name}", hint=f"known are {known or 'none yet'}")

    def sums(self, account: str, *, by: Scope) -> dict[str, Usage]:
        """Return what of an account is ``reserved``, ``spent`` and ``used`` by each period or product."""
        with self._reading() as ledger:
            return ledger.periods(account) if by == "period" else ledger.products(account)

    def charges(self, account: str, *, last: int | None = None) -> Iterator[Charged]:
        """Go through the charges of an account, the one that moved last at the end.

        Parameters
        ----------
        last
            Only so many, those that moved last; by default all.

        Raises
        ------
        InputError
            There is no such account, or ``last`` is below zero.
        """
        self.account(account)
        with self._reading() as ledger:
            for charge in _charges(ledger, account, last):
                yield _charged(ledger, charge)

    def charge_count(self, account: str) -> int:
        """Return how many charges an account ever had."""
        with self._reading() as ledger:
            return ledger.charge_count(account)

    def history(self, account: str) -> DataFrame:
        """Return the charges of an account, the first one first.

        Returns
        -------
        DataFrame
            ``release``, ``product``, ``period``, ``amount`` (a Fraction), ``state``, ``revises``.

        Raises
        ------
        InputError
            There is no such account.
        """
        import pandas as pd

        self.account(account)
        with self._reading() as ledger:
            rows = [
                (
                    charge.release_id,
                    charge.product,
                    charge.period,
                    charge.amount,
                    charge.state,
                    charge.revises,
                )
                for charge in ledger.all_charges(account)
            ]
        return pd.DataFrame(rows, columns=["release", "product", "period", "amount", "state", "revises"])

    def as_dicts(self, account: str | None = None, *, last: int | None = None) -> Iterator[dict[str, Any]]:
        """Go through the accounts as JSON has them; docs/reference/ledger.md names the fields.

        Parameters
        ----------
        last
            How many charges of each, those that moved last; by default all, and no field for none if 0.

        Raises
        ------
        InputError
            There is no such account, or ``last`` is below zero.
        """
        from tabularium.ledger.records import Usage

        for entry in self.accounts if account is None else [self.account(account)]:
            shown: dict[str, Any] = {
                **entry.terms.fields(),
                "approvals": entry.terms.approvals,
                "approvals_by_product": dict(entry.terms.approvals_by_product),
                "cap": str(entry.cap),
                "retired": entry.retired,
                **Usage(entry.reserved, entry.spent).as_dict(),
                "left": str(entry.left),
                "opened_at": entry.opened_at,
                "periods": {
                    name: sums.as_dict() for name, sums in self.sums(entry.name, by="period").items()
                },
                "products": {
                    name: sums.as_dict() for name, sums in self.sums(entry.name, by="product").items()
                },
            }
            if last != 0:
                shown["charge_count"] = self.charge_count(entry.name)
                shown["charges"] = [charged.as_dict() for charged in self.charges(entry.name, last=last)]
            yield shown

    def entries(self, account: str | None = None, *, last: int | None = None) -> Iterator[dict[str, Any]]:
        """Go through the entries as they stand in the chain, the first one first.

        Parameters
        ----------
        last
            Only so many, the newest; by default all.

        Raises
        ------
        InputError
            There is no such account, or ``last`` is below zero.
        """
        _see_that_it_is_a_number(last)
        if account is not None:
            self.account(account)
        with self._reading() as ledger:
            result: Iterable[Entry] = ()
            if last is None:
                result = ledger.entries() if account is None else ledger.account_entries(account)
            elif last:
                result = ledger.last_entries(last, account)
            yield from (entry.body for entry in result)

    def explain(self, entry: Mapping[str, Any]) -> list[str]:
        """Say in lines what an entry is about, what it changed, why it is there, and who signed it."""
        with self._reading() as ledger:
            signers = ledger.keys() if self._signers is None else self._signers
            if self._held is not None:
                self._signers = signers
            return list(explained(ledger, entry, signers))

    def review(
        self, account: str | None = None, *, delta: Fraction | None = None
    ) -> tuple[list[AccountView], list[UnitView], list[NotComposable]]:
        """Return what was spent on whom, plainly summed and as the tightest (ε, δ) that holds.

        Parameters
        ----------
        account
            Only this one: then nothing is added over accounts.
        delta
            The δ; by default the account's, or 1/1000000000.

        Returns
        -------
        Accounts that are not retired, the entities that they protect, and entities that are not added.

        Raises
        ------
        InputError
            There is no such account, or ``delta`` is not between 0 and 1.
        """
        from tabularium.ledger.review import DELTA, Reviewer

        if delta is not None and not 0 < delta < 1:
            raise InputError("is not between 0 and 1", where="--delta", hint="write it like 1/1000000000")
        names = [item.name for item in self.accounts if not item.retired]
        if account is not None:
            names = [self.account(account).name]
        with self._reading() as ledger:
            reviewer = Reviewer(ledger)
            views = [reviewer.account(name, delta) for name in names]
            if account is not None:
                return views, [], []
            return views, reviewer.units(delta or DELTA), reviewer.not_composable()

    def course(self, account: str, *, most: int = 2000) -> list[Point]:
        """Return how the budget of an account went, the first change first and today last.

        Parameters
        ----------
        most
            Some so many points, evenly spread; every change of the cap is among them.

        Raises
        ------
        InputError
            There is no such account.
        """
        from tabularium.ledger.amounts import parse_amount

        self.account(account)
        points: list[Point] = []
        cap = Fraction(0)
        with self._reading() as ledger:
            for entry in ledger.course(account, most):
                body = entry.body
                cap = parse_amount(body["cap"]) if "cap" in body else cap
                reserved, spent = parse_amount(body["account_reserved"]), parse_amount(body["account_spent"])
                points.append(Point(datetime.fromisoformat(body["at"]), cap, reserved + spent, spent))
        last = points[-1]
        return [*points, replace(last, at=max(datetime.now(UTC), last.at))]

    def forecast(self, account: str) -> Forecast:
        """Say how far the budget of an account goes if every product costs again what its last period did.

        Raises
        ------
        InputError
            There is no such account.
        """
        last: dict[str, tuple[str, Fraction]] = {}
        with self._reading() as ledger:
            left = self.account(account).left
            for charge in ledger.all_charges(account):
                if charge.state == "voided":
                    continue
                period, spent = last.get(charge.product, ("", Fraction(0)))
                if charge.period >= period:  # periods are compared as text
                    spent = spent if charge.period == period else Fraction(0)
                    last[charge.product] = (charge.period, spent + charge.amount)
        return Forecast(account, left, [(product, *forecast) for product, forecast in sorted(last.items())])

    def ahead(self, account: str) -> list[tuple[str, Foretold]]:
        """Return what becomes of the schedules of an account's products, if nothing of them changes.

        Of each product that Prefect runs on a schedule for this home: until when the account pays for it, and
        what ten years of it come to. None where no Prefect API answers.
        """
        from tabularium._check import schedules_ahead

        return [] if self._home is None else list(schedules_ahead(self._home, account))

    @property
    def last_entry(self) -> int:
        """The number of the last entry; 0 where there is none."""
        with self._reading() as ledger:
            return ledger.head().seq

    def decision(
        self,
        spec: str | os.PathLike[str],
        *,
        period: str | None = None,
        revises: str | None = None,
        measurements_of: str | None = None,
        folders: Sequence[str | os.PathLike[str]] = (),
    ) -> Decision:
        """Say what an officer decides who approves a spec. Opens no data, and signs nothing.

        Parameters
        ----------
        period, revises, measurements_of
            As they are approved.
        folders
            Copies of publication folders, besides those of the home: what is published there is compared
            with.

        Raises
        ------
        SpecError
            The spec is not in order.
        InputError
            Its account is not open.
        """
        from tabularium._officer import Decision
        from tabularium.validations.release_spec.load import load_spec

        loaded = load_spec(spec, period=period, revises=revises, measurements_of=measurements_of)
        account = self.account(loaded.spec.dataset)
        with self._reading() as ledger:
            earlier = self._last_release(ledger, loaded.spec.product, folders)
            return Decision.of(ledger, loaded, account, earlier)

    def _last_release(
        self, ledger: Ledger, product: str, folders: Sequence[str | os.PathLike[str]]
    ) -> Release | None:
        """Return the release of a product that was published last and lies here, if there is one."""
        from tabularium._published import releases_of
        from tabularium._release import open as open_release

        for release in releases_of(ledger, product, self._home, [Path(folder) for folder in folders]):
            if release.folder is not None:
                with suppress(TabulariumError):
                    return open_release(release.folder, verify=False)
        return None

    def releases(self, product: str, *, folders: Sequence[str | os.PathLike[str]] = ()) -> list[Published]:
        """Return the releases of a product, the newest first, as the ledger has them.

        Parameters
        ----------
        folders
            Copies of publication folders, besides those of the home: in each lies ``PRODUCT/PERIOD/RELEASE``.
        """
        from tabularium._published import releases_of

        with self._reading() as ledger:
            return releases_of(ledger, product, self._home, [Path(folder) for folder in folders])

    def newest_releases(
        self, *, folders: Sequence[str | os.PathLike[str]] = ()
    ) -> list[tuple[Published, int]]:
        """Return the newest release of each product, and how many releases it has; sorted by product."""
        from tabularium._published import newest_releases

        with self._reading() as ledger:
            return newest_releases(ledger, self._home, [Path(folder) for folder in folders])

    def charged(self, release: str) -> Charged:
        """Return the charge of a release, and what officers decided about it.

        Raises
        ------
        UnknownRelease
            There is none.
        """
        from tabularium.ledger.refusals import unknown_release

        with self._reading() as ledger:
            charge = ledger.charge(release)
            if charge is None:
                raise unknown_release(release)
            return _charged(ledger, charge)

    def draft_folder(self, release: str, *, folders: Sequence[str | os.PathLike[str]] = ()) -> Path | None:
        """Return the folder of a draft: where this home laid it out, or a copy in one of ``folders``.

        None where it is not there.
        """
        from tabularium._published import folder_of
        from tabularium.tasks.publish.draft_folder import DraftLocation

        if self._home is not None:
            with suppress(TabulariumError):
                copy = Path(DraftLocation.of(self._home, release).draft)
                if copy.is_dir():
                    return copy
        charge = self.charged(release).charge
        places = [Path(folder) for folder in folders]
        return folder_of(release, charge.product, charge.period, None, places)

    def waiting(self) -> Waiting:
        """Return what waits for a person, and which sources of it are away.

        A spec that nobody has approved leaves nothing in the ledger: its run is known where a Prefect API is,
        and so is what is overdue; refused deliveries stand in the database of arrivals.

        Returns
        -------
        Waiting
            A DataFrame with the columns ``kind`` (``approval``, ``review``, ``attempts``, ``refused`` or
            ``overdue``), ``account``, ``product``, ``period``, ``amount`` (a Fraction; None where it is not
            known here), ``digest`` (SHA-256 of the draft or of the spec), ``since`` (UTC), the ``command``
            that a person types, ``asks`` (the run or deployment), ``about`` (what happened), ``next`` (what
            happens next), ``release`` (of ``review`` and ``attempts``), ``spec``, ``revises`` and
            ``measurements_of`` (of ``approval``), ``officers`` (how many different ones must sign) and
            ``signed`` (the names of those who have). Its ``unknown`` says of each source that is away which
            rows are not there.
        """
        from dataclasses import astuple, fields

        from tabularium._waiting import Waiting, Waits, waiting

        with self._reading() as ledger:
            rows, unknown = waiting(ledger, self._home)
        frame = Waiting([astuple(row) for row in rows], columns=[field.name for field in fields(Waits)])
        frame.attrs["unknown"] = unknown
        return frame

    def _headline(self) -> str:
        return f"ledger {self._export}" if self._home is None else f"ledger of {self._home.path}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        names = ["account", "cap", "spent", "reserved", "left"]
        rows = [(row.name, row.cap, row.spent, row.reserved, row.left) for row in self.accounts]
        return pd.DataFrame(rows, columns=names)


@dataclass(frozen=True)
class Point:
    """Where an account stood. Made by :meth:`Books.course`.

    Attributes
    ----------
    cap, used, spent
        The cap, all that was reserved and spent of it, and what was spent.
    """

    at: datetime
    cap: Fraction
    used: Fraction
    spent: Fraction


@dataclass(frozen=True)
class Charged:
    """A charge, and what officers decided about its release. Made by :meth:`Books.charges`.

    Attributes
    ----------
    draft
        Of a release that was to be reviewed: its digest and criteria, and whether it is accepted.
    withdrawal
        Of a release that was withdrawn: when, why, and whose key signed it.
    """

    charge: Charge
    draft: Draft | None
    withdrawal: Withdrawal | None

    @property
    def standing(self) -> str:
        """The state of the charge; of a draft what it waits for, and whether a release was withdrawn."""
        if self.withdrawal is not None:
            return "withdrawn"
        if self.draft is None or self.charge.state != "measured":
            return self.charge.state
        if self.draft.accepted:
            return "draft, accepted"
        return f"draft, {self.draft.signed} accepted" if self.draft.acceptances else "draft, to review"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        charge, draft, gone = self.charge, self.draft, self.withdrawal
        return {
            "release_id": charge.release_id,
            "product": charge.product,
            "period": charge.period,
            "revises": charge.revises,
            "measurements_of": charge.measurements_of,
            "amount": str(charge.amount),
            "state": charge.state,
            "draft": draft
            and {
                "digest": draft.digest,
                "criteria": list(draft.criteria),
                "accepted": draft.accepted,
                "officers": draft.needed,
                "accepted_by": [acceptance.officer for acceptance in draft.acceptances],
            },
            "withdrawn": gone
            and {"entry": gone.entry, "at": gone.at, "key": gone.key, "reason": gone.reason},
            "attempts": charge.attempts,
        }


def _charged(ledger: Ledger, charge: Charge) -> Charged:
    gone = ledger.withdrawal(charge.release_id) if charge.state == "published" else None
    return Charged(charge, ledger.draft(charge.release_id), gone)


def _charges(ledger: Ledger, account: str, last: int | None) -> Iterator[Charge]:
    _see_that_it_is_a_number(last)
    return ledger.all_charges(account) if last is None else iter(ledger.last_charges(account, last))


def _see_that_it_is_a_number(last: int | None) -> None:
    if last is not None and last < 0:
        raise InputError("is below zero", where="--last", hint="say how many are wanted, or 0 for all")


class Forecast(Shown):
    """How far the budget of an account goes. Made by :meth:`Books.forecast`.

    Attributes
    ----------
    period_cost
        What one more period of every product costs, if each costs what its last one did.
    more
        How many such periods that pays for; None where nothing was charged yet.
    """

    def __init__(self, account: str, left: Fraction, products: list[tuple[str, str, Fraction]]) -> None:
        self._account, self._products, self.left = account, products, left
        self.period_cost = sum((amount for _, _, amount in products), Fraction(0))
        self.more: int | None = left // self.period_cost if self.period_cost else None

    def more_of(self, product: str, amount: Fraction) -> tuple[int, int]:
        """Return how many periods of a product at this amount what is left pays for.

        Returns
        -------
        By itself, and together with every other product of the account, if each costs what its last period
        did.
        """
        return self.left // amount, self.left // (amount + self.cost_without(product))

    def cost_without(self, product: str) -> Fraction:
        """Return what one more period of every other product costs."""
        return sum((cost for name, _, cost in self._products if name != product), Fraction(0))

    def _headline(self) -> str:
        if self.more is None:
            return f"account {self._account}: nothing was charged yet; {self.left} is left"
        return f"account {self._account}: {self.left} is left, {self.words}"

    @property
    def words(self) -> str:
        """How far it goes, in words; empty where nothing was charged yet."""
        if self.more is None:
            return ""
        some = {0: "not enough for one more period", 1: "enough for 1 more period"}
        periods = some.get(self.more, f"enough for {self.more} more periods")
        return f"{periods} at {self.period_cost}{' for all products' if len(self._products) > 1 else ''}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        return pd.DataFrame(self._products, columns=["product", "last period", "amount"])


def open_ledger(
    home: str | os.PathLike[str] | None = None, *, export: str | os.PathLike[str] | None = None
) -> Books:
    """Open the ledger of an installation, to be looked at.

    Parameters
    ----------
    home
        The home of the installation; by default TABULARIUM_HOME or ``~/.tabularium``.
    export
        A file that ``tabularium ledger export`` wrote, read instead once it verifies; no home is needed.

    Raises
    ------
    InputError
        There is no such home, or both are named.
    LedgerError
        When it is asked: there is none, it does not answer, or the export does not verify.
    """
    from tabularium.tasks.runtime.home import Home

    if export is not None:
        if home is not None:
            raise InputError("names another ledger than --export", where="--home", hint="give one of both")
        return Books(None, Path(export))
    return Books(Home.found(None if home is None else Path(home)))


# What an entry of the ledger says, in lines, as an auditor reads it.


#: Terms that may change, and what people call them.
_TERMS = {
    "cap": "cap",
    "cap_per_period": "cap per period",
    "cap_per_product": "cap per product",
    "opens_on": "opens on",
    "closes_on": "closes on",
    "needs_approval": "needs approval",
    "approve_exact": "needs approval of exact facts",
    "approvals": "officers who must sign",
    "approvals_by_product": "officers who must sign, by product",
}
_OPENED_ON = ("unit", "population", "relation", "definition")
#: What stands in no entry where one officer suffices.
_ONE_OFFICER = {"approvals": 1, "approvals_by_product": {}}
_AMOUNTS = ("cap", "cap_per_period", "cap_per_product")


def explained(ledger: Ledger, body: Mapping[str, Any], keys: Mapping[str, Key]) -> Iterator[str]:
    """Say in lines what an entry is about, why it is there, and who signed it."""
    yield from _subject(ledger, body, keys)
    if body.get("reason"):
        yield f"reason: {body['reason']}"
    if "by" in body:
        yield (
            "signed by itself" if body["by"] == body.get("key") else f"signed by {_signer(body['by'], keys)}"
        )
    elif body["kind"] in ("account", "attempts", "terms", "retired", "voided"):
        yield "not signed"


def _subject(ledger: Ledger, body: Mapping[str, Any], keys: Mapping[str, Key]) -> Iterator[str]:
    kind = body["kind"]
    if "release_id" in body:
        part = f", part {body['part']}" if "part" in body else ""
        yield body["release_id"]
        yield f"{parse_amount(body['amount'])} for {body['product']}, {body['period']}{part}"
        if kind == "withheld":
            yield f"draft {body['draft']}"
            yield f"criterion: {body['criterion']}"
            yield from _consulted(body)
        if kind in ("reserved", "remade") and body["revises"]:
            earlier = body.get("measurements_of")
            made = "" if earlier is None else f", made from the measurements of release {earlier}"
            yield f"revises what was published: {body['revises']}{made}"
    elif "spec_digest" in body:
        yield f"spec {body['spec_digest']}"
        if kind == "approval":
            yield (
                "for any amount" if body["amount"] is None else f"for at most {parse_amount(body['amount'])}"
            )
    elif kind in ("attempts", "withdrawn"):
        yield f"release {body['release']}" + (
            f", {body['allowed']} attempts in all" if "allowed" in body else ""
        )
        yield from _about(ledger.charge(body["release"]))
    elif "draft" in body:
        yield f"release {body['release']}, draft {body['draft']}"
        yield from _about(ledger.charge(body["release"]))
        yield f"criteria: {', '.join(body['criteria'])}"
        yield from _consulted(body)
    elif kind == "evidence":
        yield f"was an input the one of release {body['of_release']}?"
    elif kind == "account":
        yield f"{Terms.of(body).protects}, {body['relation']}, {body['definition']}"
        yield from _agreed(body)
    elif kind == "terms":
        yield from _changes(ledger, body)
    elif "population" in body:
        yield f"populations {body['population']} and {body['other']}"
    elif "key" in body:
        officers = body["key"] in keys
        key_for_releases = f"{body.get('agency', 'the agency')}, key {body['key']} for releases"
        yield _signer(body["key"], keys) if officers else key_for_releases


def _about(charge: Charge | None) -> Iterator[str]:
    """Say which product and period a release is of."""
    if charge is not None:
        yield f"{charge.product}, {charge.period}"


def _consulted(body: Mapping[str, Any]) -> Iterator[str]:
    """Say who is still to accept a draft, and whether an officer looked at what is confidential.

    Such a decision is outside the guarantee.
    """
    if left := body.get("officers_left"):
        yield f"{left} more {'officer' if left == 1 else 'officers'} must accept it"
    if body.get("consulted"):
        yield "confidential figures were consulted: outside the guarantee"


def _signer(key: str, keys: Mapping[str, Key]) -> str:
    known = keys.get(key)
    return f"{known.officer}, key {key}" if known else f"key {key}, which was never enrolled"


def _agreed(body: Mapping[str, Any]) -> Iterator[str]:
    """Say on what terms an account was opened."""
    for term, name in _TERMS.items():
        value = body.get(term)
        if value not in (None, False, {}):
            yield f"{name}: {_value(term, value)}"


def _changes(ledger: Ledger, body: Mapping[str, Any]) -> Iterator[str]:
    """Say which terms changed: what they were, and what they are now."""
    known = ledger.terms_before(body["account"], body["seq"])
    before = _ONE_OFFICER | ({} if known is None else known.fields())
    after = _ONE_OFFICER | Terms.of(body).fields()
    if any(before.get(term) != after[term] for term in _OPENED_ON):  # it was retired, and opens again
        yield f"{Terms.of(body).protects}, {body['relation']}, {body['definition']}"
    for term, name in _TERMS.items():
        if before.get(term) != after[term]:
            yield f"{name}: {_value(term, before.get(term))} → {_value(term, after[term])}"


def _value(term: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not value:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return str(parse_amount(str(value))) if term in _AMOUNTS else str(value)
