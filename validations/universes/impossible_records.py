"""Records that say what cannot be: rejected, or counted under another value, each by its own columns alone.

Facts are taken one after the other, on cell codes: a value that went to a column's ``other`` is that one.
After the last fact no kept record is in the cells of any (`validations/spec/checks/impossible_checks`).
Nothing but the record itself and public facts decides, as in coding, of which this is the last step; so
adding or removing a unit changes what is counted by that unit's own records, as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.encoding import coded_names
from tabularium.validations.imported_later import Later
from tabularium.validations.spec.parts.impossible_part import Impossible
from tabularium.validations.universes.impossible_cells import values_of
from tabularium.validations.universes.universe import among

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

IMPOSSIBLE = "impossible"
"""The column that says, of a coded record, whether it is rejected for what cannot be."""


def without_impossible(rows: Any, facts: Sequence[Impossible], domains: Mapping[str, Domain]) -> Any:
    """Return coded records of which none is impossible: those that are rejected have lost a code.

    Parameters
    ----------
    rows
        Ibis table with what :func:`tabularium.validations.domains.encoding.coded` added.

    Returns
    -------
    The same, and where there are facts the column :data:`IMPOSSIBLE`
    """
    names = coded_names(domains)
    if facts:
        rows = rows.mutate(**{IMPOSSIBLE: ibis.literal(value=False)})
    for fact in facts:
        tests = [
            among(rows[names[name].code], values_of(domains[name], values))
            for name, values in fact.cells.items()
        ]
        here = ibis.and_(*tests).fill_null(
            ibis.literal(value=False)
        )  # of a record that has lost a code already
        if fact.moved_to is None:
            column = names[next(iter(fact.cells))].code
            rows = rows.mutate(
                **{
                    column: ibis.ifelse(here, ibis.null(rows[column].type()), rows[column]),
                    IMPOSSIBLE: rows[IMPOSSIBLE] | here,
                }
            )
        else:
            name, code = fact.moved_to
            place = ibis.literal(domains[name].codes.index(code), type=rows[names[name].code].type())
            rows = rows.mutate(**{names[name].code: ibis.ifelse(here, place, rows[names[name].code])})
    return rows
