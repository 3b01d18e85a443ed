"""The ledger, to be looked at."""

from __future__ import annotations

import os
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

    def _headline(self) -> str:
        return f"ledger of {self._home.path}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        names = ["account", "cap", "spent", "reserved", "left"]
        rows = [(each.name, each.cap, each.spent, each.reserved, each.left) for each in self.accounts]
        return pd.DataFrame(rows, columns=names)


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
