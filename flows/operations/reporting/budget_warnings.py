"""When to tell that an account runs low: a share of its cap, for each account, kept in the home.

``<home>/budget-warnings.json`` holds those that were set; 20 % is meant where none was.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction

from tabularium.ledger import Ledger
from tabularium.ledger.durable_files import create, sync_folder
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import bare_errors

_FILE = "budget-warnings.json"
_DEFAULT = Fraction(1, 5)
_PERCENT = re.compile(r"(\d{1,2}(\.\d{1,3})?)\s?%")


def threshold(home: Home, account: str) -> Fraction:
    """Return the share of an account's cap below which what is left is called low."""
    return Fraction(_all(home).get(account, _DEFAULT))


def set_threshold(home: Home, account: str, written: str) -> Fraction:
    """Set the threshold of an account; ``written`` is a percentage such as ``20%``.

    Raises
    ------
    InputError
        If it is not.
    """
    share = parse_threshold(written)
    path = home.path / _FILE
    aside = path.with_name(f".{_FILE}.new")
    create(aside, json.dumps({**_all(home), account: str(share)}, indent=1).encode())
    aside.rename(path)
    sync_folder(home.path)
    return share


def parse_threshold(written: str) -> Fraction:
    """Read a percentage.

    Raises
    ------
    InputError
        If it is none below a hundred.
    """
    found = _PERCENT.fullmatch(written.strip())
    if found is None:
        raise InputError("is no percentage below 100", where="--warn-below", hint="write for instance 20%")
    return Fraction(found[1]) / 100


def left_and_cap(home: Home, account: str) -> tuple[Fraction, Fraction]:
    """Return what is left of an account, and its cap."""
    with Ledger.connect(home.ledger_url) as ledger:
        return ledger.balance(account), ledger.account(account).terms.cap


@bare_errors
def _all(home: Home) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((home.path / _FILE).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise InputError(
            "cannot be read", where=str(home.path / _FILE), hint="remove it, and give --warn-below again"
        ) from None
    return found
