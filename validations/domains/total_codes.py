"""Codes that mean a total and stand beside the categories that they are the total of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.spec.problems import quoted

_SDMX_TOTAL = "_T"
_WORDS = """
total totals totale totali totaux totales totais totaal totalt totalsumma insgesamt gesamt zusammen
summe ensemble complesso ialt samtals yhteensä kokku kopā celkem spolu ogółem razem összesen ukupno
skupaj σύνολο общо всего итого усього разом укупно вкупно toplam iomlán guztira cyfanswm gjithsej 合計
総数 总计 合计 總計 합계
"""
_TOTALS = frozenset((*_WORDS.split(), "i alt", "iš viso", "in complesso", "grand total"))
"""Labels that mean a total, in the languages of Europe and some others."""


def total_notes(domains: Mapping[str, Domain]) -> list[str]:
    """Return what `check` says of columns one of whose categories seems to be the total of the others.

    ``T`` alone is none: in NACE and ISIC it is a section.
    """
    said = []
    for name, domain in domains.items():
        if isinstance(domain, NumberDomain) or domain.size == 1:
            continue
        pairs = zip(domain.codes, domain.labels, strict=True)
        code = next((code for code, label in pairs if _is_total(code, label)), None)
        if code is not None:
            said.append(
                f"column {name}: the code {quoted(code)} seems to be the total of the others, and counts as "
                "a category beside them; leave it out, or make it their parent"
            )
    return said


def _is_total(code: str, label: str) -> bool:
    return code == _SDMX_TOTAL or any(map(_says_total, (code, label)))


def _says_total(text: str) -> bool:
    """Return whether a text is a word for a total, with nothing but brackets and marks around it."""
    words = " ".join(re.sub(r"\([^()]*\)|[^\w\s]", " ", text).split()).casefold()
    return words in _TOTALS
