"""Which columns a spec speaks of, in the source and in each look-up: no other is looked at."""

from __future__ import annotations

from tabularium.validations.derivation.derived_columns import source_column
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.parts.rules import UniqueRule
from tabularium.validations.spec.parts.source_part import taken_from
from tabularium.validations.universes.universe import test_of


def needed_columns(loaded: Loaded, look_up: str = "") -> tuple[str, ...]:
    """Return the columns that the spec takes from a look-up, or from the source itself."""
    places = (taken_from(name, loaded.spec.lookups) for name in _spoken_of(loaded))
    return tuple(column for place, column in places if place == look_up)


def read_as(loaded: Loaded, look_up: str = "") -> dict[str, Domain]:
    """Return the domains in which columns of a look-up, or of the source, are read as they stand."""
    found = {}
    for name, domain in loaded.domains.items():
        column = loaded.spec.columns[name]
        place, own = taken_from(column.source_column or name, loaded.spec.lookups)
        if place == look_up and not column.is_made:
            found[own] = domain
    return found


def read_as_numbers(loaded: Loaded) -> tuple[str, ...]:
    """Return the columns of the source and of look-ups that numbers are read from, as they stand there."""
    spec, found = loaded.spec, dict.fromkeys(loaded.spec.measured_columns)
    for name, domain in loaded.domains.items():
        column = spec.columns[name]
        if isinstance(domain, NumberDomain) and not column.is_made:
            found[column.source_column or name] = None
    return tuple(found)


def raw_names(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the name of each column inside the engine, where a name of the source could not stand."""
    return {name: f"raw{place}" for place, name in enumerate(columns)}


def _spoken_of(loaded: Loaded) -> dict[str, None]:
    spec = loaded.spec
    needed = (source_column(name, spec.columns[name]) for name in loaded.domains)
    names = dict.fromkeys(name for name in needed if name is not None)
    if spec.privacy.unit.column is not None:
        names[spec.privacy.unit.column] = None
    names.update(dict.fromkeys(spec.identifiers))
    for measure in (each.measured for each in spec.arrays if each.measured is not None):
        names.update(dict.fromkeys(measure.columns))
        tested = () if measure.test is None else test_of(measure.test, loaded.domains).about
        names.update((name, None) for name in tested if name not in loaded.domains)
    for rule in spec.rules:
        if isinstance(rule, UniqueRule):
            names.update(dict.fromkeys(rule.columns))
    names.update((look.looked_up, None) for look in spec.lookups.values() if look.looked_up is not None)
    return names
