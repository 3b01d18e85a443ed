"""The types of fields that entries have: names, lines of text, times, amounts, digests."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from tabularium.ledger import amounts, names

_TIME = re.compile(r"([0-9-]{10})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z")
_day = lru_cache(maxsize=8)(names.day)


def _line(longest: int) -> AfterValidator:
    def check(value: str) -> str:
        if not names.is_kept(value, longest):
            raise ValueError
        return value

    return AfterValidator(check)


def _time(value: str) -> str:
    found = _TIME.fullmatch(value)
    if found is None:
        raise ValueError
    _day(found[1], field="at")
    return value


def _amount(value: str) -> str:
    amount = amounts.from_text(value)
    if amount <= 0 or amounts.text(amount) != value:
        raise ValueError
    return value


def _cost(value: str) -> str:
    return value if value == "0/1" else _amount(value)


Name = Annotated[str, _line(names.LONGEST_NAME)]
Line = Annotated[str, _line(names.LONGEST_TEXT)]
Time = Annotated[str, AfterValidator(_time)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[str, AfterValidator(_amount)]
Cost = Annotated[str, AfterValidator(_cost)]  # an amount, or nothing
Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
ReleaseId = Annotated[str, AfterValidator(names.release_id)]
RunningSum = str  # compared with the sum that the entries before it make, so any other text is refused
