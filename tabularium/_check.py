"""Check of a spec: what it would publish and cost, how accurately, and whether its account can pay."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._books import open_ledger
from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._spec import Spec
from tabularium.mechanisms.errors import InternalError, TabulariumError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tabularium.flows.operations.deployments.foretold import Foretold
    from tabularium.ledger import Account, Terms
    from tabularium.ledger.records import Scope
    from tabularium.tasks.forecast.forecast import Expected
    from tabularium.tasks.runtime.home import Home
    from tabularium.validations.release_spec.model import ReleaseSpec
    from tabularium.validations.release_spec.problems import Problem
    from tabularium.validations.release_spec.summary import Checked


# What the account of a spec has left, for how many periods that pays, and what schedules will cost.


@dataclass(frozen=True)
class Paying:
    """What an account can pay.

    Attributes
    ----------
    words
        In a sentence.
    left
        Of its cap; None where it cannot pay at all.
    periods, with_others
        Of the spec that this pays for: by itself, and together with the account's other products.
    charged
        Periods of the product that are paid for.
    terms
        Of the account, for the days on which it takes charges.
    """

    words: str
    left: Fraction | None = None
    periods: int | None = None
    with_others: int | None = None
    charged: frozenset[str] = frozenset()
    terms: Terms | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        left = None if self.left is None else str(self.left)
        periods = {"periods": self.periods, "periods_with_other_products": self.with_others}
        return {"words": self.words, "left": left, **periods}


def paying(spec: ReleaseSpec, home: str | os.PathLike[str] | None) -> Paying | None:
    """Return what the account of a spec can pay; None where no home was named and none answers.

    Raises
    ------
    InputError, LedgerError
        The home that was named is not there, or its ledger does not answer.
    """
    try:
        books = open_ledger(home)
        account = next((entry for entry in books.accounts if entry.name == spec.dataset), None)
        if account is None:
            return Paying(f"Account {spec.dataset} is not open: a disclosure officer opens it.")
        forecast = books.forecast(spec.dataset)
        charges = books.history(spec.dataset)
        periods = books.sums(spec.dataset, by="period")
        products = books.sums(spec.dataset, by="product")
    except TabulariumError:
        if home is not None:
            raise
        return None
    if (wrong := _cannot(account, spec)) is not None:
        return Paying(f"Account {spec.dataset} cannot pay for this spec: {wrong}.")
    cost = spec.privacy.budget
    charges_of_product = charges[(charges["product"] == spec.product) & (charges["state"] != "voided")]
    by_itself, together = forecast.more_of(spec.product, cost)
    message = f"Account {spec.dataset}: {spec.privacy.symbol} = {forecast.left} of {account.cap} is left"
    left = account.terms.left_in("product", products.get(spec.product))
    if left is not None:
        message += f", {left} of it for one product"
        by_itself, together = min(by_itself, left // cost), min(together, left // cost)
    message += f", {_enough(by_itself)}"
    room = account.terms.left_in("period", periods.get(spec.period))
    most, charged = account.terms.cap_per_period, (charges_of_product["period"] == spec.period).any()
    if most is not None and cost + forecast.cost_without(spec.product) > most:
        together = 0
    if together < by_itself:
        message += f"; with the other products of the account {_enough(together)}"
    if charged:
        message += f"; {spec.period} was charged already"
    elif room is not None and cost > room:
        message += (
            f"; of the {most} for one period {room} is left in {spec.period}, which does not pay for it"
        )
    opens = account.terms.opens_on
    if opens is not None and f"{datetime.now(UTC):%Y-%m-%d}" < opens:
        message += f"; it takes charges from {opens} on"
    if account.terms.closes_on is not None:
        message += f"; it takes none from {account.terms.closes_on} on"
    charges_of = frozenset(charges_of_product["period"])
    return Paying(f"{message}.", forecast.left, by_itself, together, charges_of, account.terms)


def schedule_ahead(spec: ReleaseSpec, pays: Paying | None, schedule: tuple[str, str, str]) -> Foretold | None:
    """Return what becomes of a schedule if nothing else is charged; None where no account would pay."""
    from tabularium.flows.operations.deployments.foretold import coming, foretold

    if pays is None or pays.terms is None:
        return None
    forecast_ahead = coming(schedule, charged=pays.charged, terms=pays.terms, now=datetime.now(UTC))
    return foretold(spec, forecast_ahead, pays_for=pays.periods or 0, terms=pays.terms)


def schedules_ahead(home: Home, account: str) -> Iterator[tuple[str, Foretold]]:
    """Go through the products of an account that are scheduled here, which share what is left of it.

    There is none where no Prefect API answers.
    """
    from tabularium.flows.operations.deployments.foretold import (
        coming,
        foretold,
        paid_together,
        schedules_of,
    )
    from tabularium.validations.release_spec.load import load_spec

    try:
        schedules = schedules_of(home)
    except TabulariumError:
        return
    result, left, now = [], Fraction(0), datetime.now(UTC)
    for product, path, schedule in schedules:
        with suppress(TabulariumError, OSError):  # a spec that is not here, or not in order any more
            spec = load_spec(Path(path)).spec
            pays = paying(spec, home.path) if spec.dataset == account else None
            if pays is not None and pays.terms is not None:
                runs = coming(schedule, charged=pays.charged, terms=pays.terms, now=now)
                result.append((product, spec, pays.terms, (spec.privacy.budget, pays.periods or 0, runs)))
                left = pays.left or Fraction(0)
    together = paid_together(left, [schedule for *_, schedule in result])
    for (product, spec, terms, (_, _, runs)), number in zip(result, together, strict=True):
        yield product, foretold(spec, runs, pays_for=number, terms=terms)


def _enough(periods: int) -> str:
    if not periods:
        return "not enough for one more period of this spec"
    return f"enough for {periods} more period{'' if periods == 1 else 's'} of this spec"


def _cannot(account: Account, spec: ReleaseSpec) -> str | None:
    """Return why an account can never pay for a spec, whatever is left."""
    from tabularium.ledger.refusals import UnitMismatch
    from tabularium.ledger.terms import require_same_units

    privacy = spec.privacy
    if account.retired or account.terms.closed_on(f"{datetime.now(UTC):%Y-%m-%d}"):
        return "it takes no charges any more"
    asked = privacy.unit.entity, privacy.relation, privacy.definition, privacy.unit.population
    try:
        require_same_units(account.terms, privacy.budget, *asked)
    except UnitMismatch as error:
        return f"{error.what} ({error.hint})"
    scopes: tuple[Scope, ...] = ("period", "product")
    for name in scopes:
        cap = account.terms.cap_in(name)
        if cap is not None and privacy.budget > cap:
            return f"it allows {cap} for one {name}, and the spec costs {privacy.budget}"
    return None


class Check:
    """The outcome of :func:`check`: true if the spec is in order.

    Attributes
    ----------
    problems
        All that is wrong, each with ``line``, ``field``, ``what`` and ``hint``.
    """

    def __init__(self, checked: Checked, expected: Sequence[Expected], account: Paying | None = None) -> None:
        self._checked, self._expected, self._account = checked, expected, account
        self.problems: tuple[Problem, ...] = checked.problems

    def __bool__(self) -> bool:
        return self._checked.summary is not None

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for every number that noise will drown in a typical cell, with what would help."""
        from tabularium.tasks.forecast.describe_check import warnings_of

        summary = self._checked.summary
        if summary is None:
            return ()
        return tuple(warnings_of(self._expected, summary.spec.privacy.definition))

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: ``ok``, ``problems``, ``summary`` with tables, costs and margins."""
        document = self._checked.as_json()
        if document["summary"] is not None:
            document["summary"]["expected_margins"] = [
                expectation.as_json() for expectation in self._expected
            ]
            document["summary"]["warnings"] = list(self.warnings)
            if self._account is not None:
                document["summary"]["account"] = self._account.as_json()
        return document

    def __rich__(self) -> RenderableType:
        """Return what Rich prints."""
        from rich.text import Text

        from tabularium.tasks.forecast.describe_check import render
        from tabularium.validations.release_spec.problems import format_problems

        summary = self._checked.summary
        if summary is None:
            return Text(format_problems(self.problems))
        return render(summary, self._expected, None if self._account is None else self._account.words)

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=110, no_color=True, emoji=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def check(
    spec: Spec | str | os.PathLike[str],
    *,
    like: Release | str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Check:
    """Say everything that is wrong with a spec, or what it will publish, cost and be worth. Opens no data.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    like
        A published release, or its folder, whose counts say how many records cells have; otherwise ``size``
        of the spec does.
    home
        Of the installation whose ledger says what the account can pay; by default TABULARIUM_HOME or
        ``~/.tabularium``, and nothing is reported without one. None is made, and nothing in it is changed.

    Raises
    ------
    InputError
        The release is a rehearsal or has none of the tables of the spec, or ``home`` was named and is not
        there.
    LedgerError
        The ledger of a home that was named does not answer.
    """
    from tabularium.validations.release_spec.summary import Checked, check

    path, period = (spec.path, spec._period) if isinstance(spec, Spec) else (Path(spec), None)
    checked = check(path, period=period)
    if checked.summary is not None and (refused := _refused(path, period)) is not None:
        checked = Checked((refused,), None)
    if checked.summary is None:
        return Check(checked, ())
    return Check(checked, _expected(path, period, like), paying(checked.summary.spec, home))


def _expected(
    path: Path, period: str | None, like: Release | str | os.PathLike[str] | None
) -> Sequence[Expected]:
    from tabularium.tasks.forecast.forecast import forecast
    from tabularium.validations.release_spec.load import load_spec

    release = like if isinstance(like, Release) or like is None else open_release(like)
    return forecast(load_spec(path, period=period), None if release is None else release._published("like"))


def _refused(path: Path, period: str | None) -> Problem | None:
    """Return what a run would refuse in a spec that is in order, once it tried it without data."""
    from tabularium.tasks.dry_run import dry_run_spec
    from tabularium.tasks.runtime.run import without_data
    from tabularium.validations.release_spec.load import load_spec
    from tabularium.validations.release_spec.problems import Problem

    try:
        run = without_data(load_spec(path, period=period))
        dry_run_spec(run)
    except InternalError:
        raise
    except TabulariumError as error:
        return Problem(None, error.where, error.what, error.hint, path.name)
    return None
