"""The mechanisms by name, imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from tabularium.mechanisms.errors import MechanismError

if TYPE_CHECKING:
    from tabularium.mechanisms.measured import Measured
    from tabularium.mechanisms.mechanism import Mechanism

_CLASSES = {
    "identity": "tabularium.mechanisms.histograms.cellwise:Identity",
    "cells": "tabularium.mechanisms.histograms.cellwise:Identity",
    "gaussian": "tabularium.mechanisms.histograms.cellwise:Gaussian",
    "uniform": "tabularium.mechanisms.histograms.uniform:Uniform",
    "boost": "tabularium.mechanisms.histograms.boost:Boost",
    "privelet": "tabularium.mechanisms.histograms.privelet:Privelet",
    "mwem": "tabularium.mechanisms.histograms.mwem:Mwem",
    "fpa": "tabularium.mechanisms.histograms.spectral:Fpa",
    "spa": "tabularium.mechanisms.histograms.spectral:Spa",
    "efpa": "tabularium.mechanisms.histograms.spectral:Efpa",
    "p_hpartition": "tabularium.mechanisms.histograms.p_hpartition:PHPartition",
    "noise_first": "tabularium.mechanisms.histograms.noise_first:NoiseFirst",
    "denoise": "tabularium.mechanisms.histograms.denoise.denoise:Denoise",
    "structure_first": "tabularium.mechanisms.histograms.structure_first:StructureFirst",
    "kd_tree": "tabularium.mechanisms.histograms.kd_tree:KdTree",
    "hierarchical_kd_tree": ("tabularium.mechanisms.histograms.hierarchical_kd_tree:HierarchicalKdTree"),
    "sreb_gca": "tabularium.mechanisms.histograms.clustering:SrebGca",
    "ahp": "tabularium.mechanisms.histograms.clustering:Ahp",
    "dawa": "tabularium.mechanisms.histograms.dawa:Dawa",
    "privhist": "tabularium.mechanisms.histograms.privhist:PrivHist",
    "sorted_isotonic": "tabularium.mechanisms.histograms.sorted_isotonic:SortedIsotonic",
}
#: Built and restored like the others, but never chosen for a table by name: what measures things other than
#: counts, and what runs another mechanism many times.
_INTERNAL = {
    "bounded_sums": "tabularium.mechanisms.histograms.bounded_sums:BoundedSums",
    "quantile_choices": "tabularium.mechanisms.histograms.quantile_choices:QuantileChoices",
    "per_region": "tabularium.mechanisms.histograms.per_region:PerRegion",
}


class Registry(Mapping[str, "type[Mechanism]"]):
    """Name -> mechanism class. A class is imported when it is looked up, not before.

    A mechanism is added by one file and one line in ``_CLASSES``; the privacy audit then takes it up.
    """

    def __getitem__(self, name: str) -> type[Mechanism]:
        return _imported(_CLASSES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES


MECHANISMS = Registry()


def build(name: str, **parameters: Any) -> Mechanism:
    """Return the mechanism called ``name`` with the given parameters.

    Raises
    ------
    MechanismError
        No such mechanism, no such parameter, or a value that it does not take.

    Examples
    --------
    >>> build("identity").name
    'identity'
    """
    if name not in MECHANISMS and name not in _INTERNAL:
        close = get_close_matches(str(name), MECHANISMS, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise MechanismError(
            f"there is no mechanism of that name ({_shown(name)})",
            where="mechanism",
            hint=f"{guess}known are {', '.join(sorted(MECHANISMS))}",
        )
    kind = MECHANISMS[name] if name in MECHANISMS else _imported(_INTERNAL[name])
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in known:
            raise MechanismError(
                f"{name} has no parameter of that name ({_shown(parameter)})",
                where="mechanism",
                hint=f"it takes {', '.join(known)}" if known else "it takes none",
            )
    return kind(**parameters)


def _imported(place: str) -> type[Mechanism]:
    module, _, attribute = place.partition(":")
    return cast("type[Mechanism]", getattr(import_module(module), attribute))


def preload(name: str) -> None:
    """Import all that a mechanism may ever import: a broken installation shows before anything is charged.

    Modules import at their top, but for the compiler of the kernels, which is imported here, where there is
    one. What numba imports while it compiles is not tried.

    Raises
    ------
    ImportError
        Something cannot be imported.
    """
    _imported(_CLASSES.get(name) or _INTERNAL[name])
    try:
        import_module("numba")
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise


def restore(measured: Measured) -> Mechanism:
    """Return the mechanism that drew a stored measurement, ready to ``finish`` it."""
    return build(measured.mechanism, **measured.parameters)


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 40 else text[:36] + "...'"
