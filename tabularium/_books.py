"""The ledger, to be looked at."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium._shown import Shown
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium.ledger import Account
    from tabularium.tasks.runtime.home import Home


class Books(Shown):
    """The accounts of an installation, as they stand when they are asked for. Nothing here changes them."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @property
    def accounts(self) -> list[Account]:
        """Every account: its terms, and ``cap``, ``spent``, ``reserved``, ``left`` as exact fractions."""
        from tabularium.ledger import Ledger

        with Ledger.connect(self._home.ledger_url, make=False) as ledger:
            return list(ledger.accounts())

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

        from tabularium.ledger import Ledger

        with Ledger.connect(self._home.ledger_url, make=False) as ledger:
            known = [each.name for each in ledger.accounts()]
            if account not in known:
                raise InputError(
                    "no such account",
                    where=f"account {account}",
                    mend=f"known are {', '.join(known) or 'none yet'}",
                )
            rows = [
                (each.release_id, each.product, each.period, each.amount, each.state, each.revises)
                for each in ledger.each_charge(account)
            ]
        return pd.DataFrame(rows, columns=["release", "product", "period", "amount", "state", "revises"])

    def forecast(self, account: str) -> Forecast:
        """Say how far the budget of an account goes if every product costs again what its last period did.

        Raises
        ------
        InputError
            There is no such account.
        """
        charges = self.history(account)
        counted = charges[charges["state"] != "voided"]
        rows = []
        for product, own in counted.groupby("product", sort=True):
            period = own["period"].max()  # periods are compared as text
            last = sum(own.loc[own["period"] == period, "amount"], Fraction(0))
            rows.append((str(product), str(period), last))
        (found,) = (each for each in self.accounts if each.name == account)
        return Forecast(account, found.left, rows)

    def waiting(self) -> DataFrame:
        """Return the drafts that wait for an officer to accept or withhold them.

        Returns
        -------
        DataFrame
            ``account``, ``product``, ``period``, ``amount`` (a Fraction), ``draft`` (the SHA-256 that is
            accepted), ``since`` (UTC).
        """
        import pandas as pd

        from tabularium.ledger import Ledger

        rows = []
        with Ledger.connect(self._home.ledger_url, make=False) as ledger:
            for account in ledger.accounts():
                for charge in ledger.each_charge(account.name):
                    draft = ledger.draft(charge.release_id) if charge.state == "measured" else None
                    if draft is not None and not draft.accepted:
                        rows.append(
                            (
                                account.name,
                                charge.product,
                                charge.period,
                                charge.amount,
                                draft.digest,
                                draft.at,
                            )
                        )
        columns = ["account", "product", "period", "amount", "draft", "since"]
        return pd.DataFrame(rows, columns=columns)

    def _headline(self) -> str:
        return f"ledger of {self._home.path}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        names = ["account", "cap", "spent", "reserved", "left"]
        rows = [(each.name, each.cap, each.spent, each.reserved, each.left) for each in self.accounts]
        return pd.DataFrame(rows, columns=names)


class Forecast(Shown):
    """How far the budget of an account goes. Made by :meth:`Books.forecast`.

    Attributes
    ----------
    each
        What one more period of every product costs, if each costs what its last one did.
    left
        What is left of the cap.
    more
        How many such periods that pays for; None where nothing was charged yet.
    """

    def __init__(self, account: str, left: Fraction, products: list[tuple[str, str, Fraction]]) -> None:
        self._account, self._products, self.left = account, products, left
        self.each = sum((amount for _, _, amount in products), Fraction(0))
        self.more: int | None = left // self.each if self.each else None

    def more_of(self, product: str, amount: Fraction) -> tuple[int, int]:
        """Return how many periods of a product at this amount what is left pays for.

        Returns
        -------
        By itself, and beside every other product of the account, if each costs what its last period did.
        """
        others = sum((cost for name, _, cost in self._products if name != product), Fraction(0))
        return self.left // amount, self.left // (amount + others)

    def _headline(self) -> str:
        if self.more is None:
            return f"account {self._account}: nothing was charged yet; {self.left} is left"
        more = f"enough for {self.more} more periods at {self.each}"
        return f"account {self._account}: {self.left} is left, {more}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        return pd.DataFrame(self._products, columns=["product", "last period", "amount"])


def open_ledger(home: str | os.PathLike[str] | None = None) -> Books:
    """Open the ledger of an installation, to be looked at.

    Parameters
    ----------
    home
        The home of the installation; TABULARIUM_HOME or ``~/.tabularium`` unless said.

    Raises
    ------
    LedgerError
        When it is asked: there is none, or it does not answer.
    """
    from tabularium.tasks.runtime.home import Home

    return Books(Home.found(None if home is None else Path(home)))
