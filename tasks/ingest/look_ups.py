"""Look-ups: what else is found about each record, joined so that none is lost, doubled or moved by others.

::

    record ── value of `from`, and its unit ──▶ the one row of the look-up with that key, of that unit
                                                (none, or more than one: null)

A look-up that is public is a fixed function of the value that is looked up. In any other a record finds rows
that bear its own unit alone: what is found depends on the unit's own rows, and so does what is not found
because a key stands there twice. Keys are compared as codes are, as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.ingest.source_columns import needed_columns
from tabularium.validations.domains.encoding import as_text
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.load import Loaded

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

_KEY, _UNIT = "key", "unit"


def read_columns(loaded: Loaded, name: str) -> dict[str, str]:
    """Return the columns of a look-up's file that are read, by their names inside the engine."""
    look, place = loaded.spec.lookups[name], _place(loaded, name)
    keys = {f"look{place}_{_KEY}": look.key, f"look{place}_{_UNIT}": look.unit}
    found = {f"look{place}_{at}": column for at, column in enumerate(needed_columns(loaded, name))}
    return {raw: column for raw, column in keys.items() if column is not None} | found


def raw_names_found(loaded: Loaded) -> dict[str, str]:
    """Return ``LOOKUP.COLUMN`` -> its name inside the engine, for every column that is taken."""
    return {
        f"{name}.{column}": f"look{_place(loaded, name)}_{at}"
        for name in loaded.spec.lookups
        for at, column in enumerate(needed_columns(loaded, name))
    }


def joined(table: Any, raw: Mapping[str, str], loaded: Loaded, tables: Mapping[str, Any]) -> Any:
    """Return the records with what is found in every look-up, null where nothing is.

    Parameters
    ----------
    table
        Ibis table of the records of the source.
    raw
        Column of the source, or ``LOOKUP.COLUMN`` -> its name inside the engine.
    tables
        Look-up -> Ibis table of the columns of :func:`read_columns`.
    """
    unit = loaded.spec.privacy.unit.column
    for name, look in loaded.spec.lookups.items():
        place = _place(loaded, name)
        on = {} if look.looked_up is None else {f"look{place}_{_KEY}": look.looked_up}
        if look.unit is not None:
            on[f"look{place}_{_UNIT}"] = unit or ""  # of which there is none: never without the unit
        both = {key: (tables[name][key], table[raw[column]]) for key, column in on.items()}
        keys = {key: _comparable(*columns) for key, columns in both.items()}
        rows = _one_of_each(
            tables[name].mutate(**{key: there for key, (there, _) in keys.items()}), list(keys)
        )
        table = table.left_join(rows, [here == rows[key] for key, (_, here) in keys.items()]).drop(*keys)
    return table


def require_unique(loaded: Loaded, name: str, table: Any) -> None:
    """Refuse a public look-up in which a key stands more than once: which of its rows is meant?

    Raises
    ------
    InputRefused
        Saying for how many keys. It is public.
    """
    each = keys_in(loaded, name, table).group_by(_KEY).aggregate(rows=ibis._.count())
    twice = each.filter(each.rows > 1).count().execute()
    if twice:
        raise InputRefused(
            f"{twice} keys stand in more than one row" if twice > 1 else "a key stands in more than one row",
            where=f"lookups.{name}",
            hint="leave one row of each key: a public look-up gives each value one row",
        )


def keys_in(loaded: Loaded, name: str, table: Any) -> Any:
    """Return the keys of a look-up as text, a table of one column; rows without a key are left out."""
    key = table[f"look{_place(loaded, name)}_{_KEY}"]
    return table.select(as_text(key).name(_KEY)).filter(ibis._[_KEY].notnull())


def _place(loaded: Loaded, name: str) -> int:
    return list(loaded.spec.lookups).index(name)


def _comparable(there: Any, here: Any) -> tuple[Any, Any]:
    """Return a key and what is looked up in a form in which they are equal if their texts are."""
    if there.type().is_integer() and here.type() == there.type():
        return there, here  # a whole number has one text
    return as_text(there), as_text(here)


def _one_of_each(table: Any, keys: list[str]) -> Any:
    """Return one row for each key: the only one there is, or nulls where there are several."""
    rows = table.filter(*(table[key].notnull() for key in keys))
    found = [name for name in rows.columns if name not in keys]
    only = ibis._.count() == 1
    # Of a single row `arbitrary` gives its value, or null where that is null.
    values = {name: ibis.ifelse(only, rows[name].arbitrary(), ibis.null(rows[name].type())) for name in found}
    return rows.group_by(keys).aggregate(**values)
