"""The mechanism of a table: is it known, does it take its parameters, what does it know of its own error?

What a mechanism refuses for public reasons, and whether it states its error, is found by running it on a
small empty table with seeded noise that is thrown away. Nothing here depends on data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.mechanism_listing import parameters_of
from tabularium.validations.spec.parts.table_parts import PER_REGION, Table, TableEntry
from tabularium.validations.spec.problems import Path, choose, quoted

ErrorSource = Literal["exact", "risk", "none"]
Shape = tuple[int, ...]

MARGIN_SHARE = Fraction(1, 20)
"""The part of a table's budget that measures its error where the mechanism cannot tell it."""

_REHEARSED_CELLS = 256
_PAGE = "docs/reference/spec/mechanisms.md"
_NAMES: dict[Definition, str] = {"pure": "pure differential privacy", "zcdp": "zero-concentrated privacy"}


def default_mechanism(definition: Definition) -> str:
    """Return what measures a table that names no mechanism."""
    return "identity" if definition == "pure" else "gaussian"


def check_mechanism(draft: Draft, path: Path, table: TableEntry, definition: Definition | None) -> None:
    """Check name, parameters and definition of a table's mechanism.

    Parameters
    ----------
    definition
        Of the spec; None where it does not read.
    """
    from tabularium.mechanisms import MECHANISMS

    if not draft.reads((*path, "mechanism")):
        return
    name = table.mechanism or default_mechanism(definition or "pure")
    if name not in MECHANISMS:
        what = f"there is no mechanism {quoted(name)}"
        draft.add((*path, "mechanism"), what, choose(name, MECHANISMS, "mechanisms"))
        return
    kind = MECHANISMS[name]
    if definition is not None and definition not in kind.definitions:
        what = f"{name} does not give {_NAMES[definition]}, which the budget is an amount of"
        hint = f"choose another mechanism, such as {default_mechanism(definition)}; {_PAGE} lists them"
        draft.add((*path, "mechanism"), what, hint)
        return
    if draft.reads((*path, "parameters")):
        mechanism = check_parameters(draft, path, name, table.parameters)
        if mechanism is not None:
            _check_attributed(draft, path, name, mechanism)


def check_parameters(
    draft: Draft, path: Path, name: str, given: dict[str, Any], *, unwritten: tuple[str, ...] = ()
) -> Mechanism | None:
    """Check the parameters of a mechanism, and return it with them; None when they do not fit.

    Parameters
    ----------
    path
        Of what holds the parameters: a table or a histogram.
    name
        Of the mechanism.
    given
        The parameters as the spec has them.
    unwritten
        Parameters of the mechanism that a spec may not write.
    """
    from tabularium.mechanisms import MECHANISMS, build

    before = draft.count()
    known = [parameter for parameter in parameters_of(MECHANISMS[name]) if parameter.name not in unwritten]
    names = [parameter.name for parameter in known]
    for each in given:
        if each not in names:
            what = f"{name} has no parameter {quoted(each)}{' here' if unwritten else ''}"
            hint = choose(each, names, "parameters") if names else "remove it: it takes none"
            draft.add((*path, "parameters", each), what, hint)
    for parameter in known:
        if parameter.required and parameter.name not in given:
            what = f"{name} needs the parameter {quoted(parameter.name)}"
            key = "parameters" if given else "mechanism"
            draft.add((*path, key), what, f"write parameters: {{{parameter.name}: …}}, see {_PAGE}")
    if draft.count() > before:
        return None
    try:
        return build(name, **given)
    except MechanismError as error:
        _add_complaint(draft, path, given, error, names)
    except (TypeError, ValueError, ArithmeticError):
        what = f"{name} does not take these values"
        draft.add((*path, "parameters"), what, f"see {_PAGE} for what it takes")
    return None


def _check_attributed(draft: Draft, path: Path, name: str, mechanism: Mechanism) -> None:
    """Check that a mechanism releases a count for every cell of a table."""
    if getattr(mechanism, "unattributed", False):
        what = "sorted counts no longer belong to the cells of a table"
        draft.add((*path, "parameters", "unattributed"), what, "write unattributed: false")
    elif not getattr(mechanism, "attributed", True):
        what = f"{name} releases how many cells have which count, and not which cells have it"
        draft.add((*path, "mechanism"), what, "choose a mechanism that releases a count for every cell")


def _add_complaint(
    draft: Draft, path: Path, given: dict[str, Any], error: MechanismError, known: list[str]
) -> None:
    """Note what a mechanism refuses, at the parameter that it names."""
    place: Path = (*path, "parameters" if given else "mechanism")
    what = error.what
    if error.where in given:
        place = (*place, error.where)
    elif error.where in known:
        what = f"{quoted(error.where)}: {what}"
    draft.add(place, what, error.hint or "choose another mechanism or other parameters")


def check_dry_run(
    draft: Draft, path: Path, table: Table, shapes: dict[str, Shape], definition: Definition
) -> None:
    """Check that a mechanism takes tables of these shapes, and that its error is known or can be measured.

    Parameters
    ----------
    table
        With the mechanism that measures its counts; in each region, where it has any.
    shapes
        Measured level -> the shape in which it is counted.
    """
    from tabularium.mechanisms import MECHANISMS

    name, parameters = table.mechanism, table.parameters
    if name == PER_REGION:
        name, parameters = parameters["mechanism"], parameters["parameters_of_each"]
    try:
        source = error_source(table.mechanism, table.parameters, definition, shapes)
    except MechanismError as error:
        names = [parameter.name for parameter in parameters_of(MECHANISMS[name])]
        _add_complaint(draft, path, parameters, error, names)
        return
    if source == "exact" and table.margin_share is not None:
        what = f"the error of {name} is known exactly, so no budget is spent to measure it"
        draft.add((*path, "margin_share"), what, "remove margin_share")
    consistent = draft.postprocessing is not None and draft.postprocessing.consistency
    if source == "none" and table.margin_share == 0 and len(shapes) > 1 and consistent:
        what = "levels are made to agree by their errors, and this leaves them unknown"
        draft.add((*path, "margin_share"), what, "write a share above zero, or measure one level")


def error_source(
    name: str, parameters: dict[str, Any], definition: Definition, shapes: dict[str, Shape]
) -> ErrorSource:
    """Return what a mechanism tells of its error: the exact variance, a risk estimate, or nothing.

    Raises
    ------
    MechanismError
        What the mechanism refuses for public reasons.
    """
    text = repr(sorted(parameters.items()))
    found = {_dry_run_found(name, text, definition, shape) for shape in dict.fromkeys(shapes.values())}
    if "none" in found:
        return "none"
    return "risk" if "risk" in found else "exact"


@lru_cache(maxsize=256)
def _dry_run_found(name: str, parameters: str, definition: Definition, shape: Shape) -> ErrorSource:
    """Rehearse on a smaller table; only where that is refused on the whole one, which may be why."""
    small = shrunk(shape)
    try:
        return _dry_run(name, parameters, definition, small)
    except MechanismError:
        if small == shape:
            raise
    return _dry_run(name, parameters, definition, shape)


def _dry_run(name: str, parameters: str, definition: Definition, shape: Shape) -> ErrorSource:
    from ast import literal_eval

    from tabularium.mechanisms import build
    from tabularium.mechanisms.channel import SeededChannel

    mechanism = build(name, **dict(literal_eval(parameters)))
    shape = mechanism.probe_shape(shape)
    channel = SeededChannel(1, seed=0, definition=definition)
    release = mechanism.release(np.zeros(shape, np.int64), channel)
    if release.values.shape != shape:
        raise MechanismError(
            f"{name} releases no table of cells", where=name, hint="choose another mechanism"
        )
    if release.variances is not None:
        return "exact"
    return "risk" if "risk" in release.diagnostics else "none"


def shrunk(shape: Shape) -> Shape:
    """Return a shape of at most 256 cells (or all ones) with as many axes, none longer than it was."""
    sizes = list(shape)
    while math.prod(sizes) > _REHEARSED_CELLS:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[longest] = (sizes[longest] + 1) // 2
    return tuple(sizes)
