"""How the tables of a release hang together, and what post-processing does with all of them at once.

Tables of one universe that name the same column count the same records along it, so they agree on every
margin that they share, at least on the grand total; a public invariant is one more table, whose numbers are
exact. Arrays of measures agree with those of their universe that add up the same, and never with counts. What
has nobody to agree with takes the shorter way along its hierarchy: the answer is the same. Tables of
different universes agree where one is a union of cells of a table of the other
(:mod:`tabularium.tasks.postprocess.joined_universes`); others count different records, and are not made to
agree.

Nothing here reads or writes: stages and simulations hand in estimates and get estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate, TableSet
from tabularium.mechanisms.inference.joint.shared_marginals import View
from tabularium.tasks.postprocess.mapped_arrays import Room
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.postprocess.together import Agreed, Estimates, Together
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.tables import Table
from tabularium.validations.universes.universe import Universe, adds_alike, key_of, universe_of


@dataclass(frozen=True, eq=False)
class Agreement:
    """The tables of a release and the arrays of their measures, in groups of those that count the same.

    Attributes
    ----------
    groups
        The tables of each universe with those of the universes that are joined to it, and likewise the arrays
        that add up the same; the counts of all records come first, with the invariants.
    layouts
        Name of each table and array -> how it lies in memory, in the order of the spec.
    """

    groups: tuple[Together, ...]
    layouts: dict[str, Layout]

    @classmethod
    def of(cls, loaded: Loaded) -> Agreement:
        """Work out which tables and arrays of a spec count the same, and what those share."""
        alike: dict[object, dict[object, list[Table]]] = {None: {None: []}}
        for array in loaded.spec.arrays:
            adds: object = array.measured and adds_alike(array.measured, loaded.domains)
            if array.measured is not None and not array.measured.adds_up:
                adds = array.name
            own = alike.setdefault(adds, {})
            own.setdefault(key_of(array, loaded.domains), []).append(array)
        groups = []
        for added, universes in alike.items():
            left = [some for some in universes.values() if some]
            left.sort(key=lambda some: _part_of_all(loaded, some[0]), reverse=True)  # the larger ones first
            while left:
                tables, *smaller = left
                known = loaded.known if added is None and tables[0].where is None else ()
                made = Together.of(
                    loaded,
                    tables,
                    known,
                    [(some[0].where or "", _universe(loaded, some[0]), some) for some in smaller],
                    None if tables[0].where is None else _universe(loaded, tables[0]),
                )
                groups.append(made)
                left = [some for some in smaller if some[0].name not in made.layouts]
        every = {name: layout for group in groups for name, layout in group.layouts.items()}
        return cls(tuple(groups), {array.name: every[array.name] for array in loaded.spec.arrays})

    @property
    def overlap(self) -> TableSet:
        """Of the tables that share records with the invariants, which are those of all records."""
        return self.groups[0].overlap

    @property
    def known(self) -> Estimates:
        """Invariant name -> its numbers, of variance 0."""
        return self.groups[0].known

    @property
    def apart(self) -> tuple[str, ...]:
        """Columns that are a hierarchy in one table and leaves in another of the same universe."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.apart))

    @property
    def alone(self) -> bool:
        """Whether there is no table that must agree with anything."""
        return all(group.alone for group in self.groups)

    def holding(self, table: str) -> Together:
        """Return the tables that count the same as this one."""
        return next(group for group in self.groups if table in group.spreads)

    def consistent(
        self, measured: Mapping[str, Estimate], *, variances: bool = True, room: Room | None = None
    ) -> Agreed:
        """Make hierarchies add up and shared margins agree; see :meth:`Together.consistent`."""
        return self._each(measured, lambda group, own: group.consistent(own, variances=variances, room=room))

    def nonnegative(self, estimates: Mapping[str, Estimate], *, room: Room | None = None) -> Agreed:
        """Make every number zero or more; see :meth:`Together.nonnegative`."""
        return self._each(estimates, lambda group, own: group.nonnegative(own, room=room))

    def whole(self, estimates: Mapping[str, Estimate], *, room: Room | None = None) -> Agreed:
        """Make every number whole; see :meth:`Together.whole`."""
        return self._each(estimates, lambda group, own: group.whole(own, room=room))

    def _each(
        self, estimates: Mapping[str, Estimate], step: Callable[[Together, Estimates], Agreed]
    ) -> Agreed:
        """Take group by group through one step; one may be left out, as nothing else depends on it."""
        groups = [group for group in self.groups if group.layouts.keys() <= estimates.keys()]
        made = [step(group, {name: estimates[name] for name in group.layouts}) for group in groups]
        every = {name: estimate for agreed in made for name, estimate in agreed.estimates.items()}
        notes = in_one([one.notes for group, one in zip(groups, made, strict=True) if not group.adds_up])
        told = {
            ", ".join(group.layouts): {key: said for key, said in one.notes.items() if key != "named"}
            for group, one in zip(groups, made, strict=True)
            if group.adds_up and one.notes
        }
        named = [line for one in made for line in one.notes.get("named", ())]
        if told:
            notes |= {"measures": told} | (
                {"named": named} if any("named" in one.notes for one in made) else {}
            )
        return Agreed({name: every[name] for name in self.layouts if name in every}, notes)

    def differences(self, tables: Mapping[str, NDArray[Any]]) -> int:
        """Count the shared numbers, over all pairs of tables and invariants, on which two of them differ."""
        return sum(int(wrong.sum()) for _, _, _, wrong in self.compared(tables))

    def compared(
        self, tables: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, str, View, NDArray[np.bool_]]]:
        """Yield pairs of tables and invariants of a universe; see :meth:`Together.compared`."""
        for group in self.groups:
            yield from group.compared({name: tables[name] for name in group.layouts if name in tables})


def _universe(loaded: Loaded, table: Table) -> Universe:
    return universe_of(table.where or "", loaded.domains)


def _part_of_all(loaded: Loaded, table: Table) -> float:
    """Return which part of all cells a table's universe has; 2 for all records, which come first."""
    masks = () if table.where is None else _universe(loaded, table).columns.values()
    return math.prod(float(mask.mean()) for mask in masks) if table.where is not None else 2.0


def in_one(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the notes on one step of several universes as one: the worst of each kind, and all names."""
    notes = [each for each in notes if each]
    if len(notes) <= 1:
        return dict(notes[0]) if notes else {}
    made: dict[str, Any] = {}
    for key in dict.fromkeys(key for note in notes for key in note):
        found = [note[key] for note in notes if key in note]
        if isinstance(found[0], list):
            made[key] = [each for part in found for each in part]
        elif isinstance(found[0], dict):
            made[key] = {
                kind: sum(part.get(kind, 0) for part in found)
                for kind in sorted({k for part in found for k in part})
            }
        elif key == "families_at_once":
            made[key] = sum(found)
        elif key == "variances":
            made[key] = "estimated" if "estimated" in found else "exact"
        elif isinstance(found[0], str):
            made[key] = ", ".join(dict.fromkeys(found))
        else:
            made[key] = max(found)
    return made
