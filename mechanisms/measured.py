"""What a mechanism hands on: its noisy measurements, and the release made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Definition, Event
from tabularium.mechanisms.errors import MechanismError

Array = NDArray[Any]

_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, eq=False)
class Measured:
    """Everything that was drawn through the channel, and nothing else.

    It can be stored and finished years later: ``arrays`` go to a file, ``document()`` is JSON, and
    ``mechanisms.restore(measured)`` gives back the mechanism.

    Attributes
    ----------
    mechanism
        Name in the registry.
    parameters
        JSON-able values that build the same mechanism again.
    arrays
        Noisy arrays by name.
    meta
        JSON-able values: public shapes, and choices made through the channel.
    transcript
        The events of this measurement.
    definition
        The definition of privacy its losses are counted in.
    insecure
        Whether the noise was predictable (seeded or forced): never to be published.
    """

    mechanism: str
    parameters: dict[str, Any]
    arrays: dict[str, Array]
    meta: dict[str, Any]
    transcript: tuple[Event, ...]
    definition: Definition
    insecure: bool

    def __post_init__(self) -> None:
        check_plain(self.meta, "meta")
        check_plain(self.parameters, "parameters")
        for array in self.arrays.values():
            check_array(array, "arrays")

    def release(
        self, values: Array, variances: float | NDArray[np.float64] | None = None, **diagnostics: Any
    ) -> Release:
        """Return the release of ``values``, with the transcript and whether the noise was predictable."""
        return Release(values, self.transcript, variances, insecure=self.insecure, diagnostics=diagnostics)

    def document(self) -> dict[str, Any]:
        """Return all but the arrays as JSON-able values."""
        return {
            "mechanism": self.mechanism,
            "parameters": self.parameters,
            "meta": self.meta,
            "transcript": [event.as_dict() for event in self.transcript],
            "definition": self.definition,
            "insecure": self.insecure,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any], arrays: dict[str, Array]) -> Measured:
        """Return the measurement that ``document`` and ``arrays`` describe."""
        return cls(
            mechanism=document["mechanism"],
            parameters=dict(document["parameters"]),
            arrays=dict(arrays),
            meta=dict(document["meta"]),
            transcript=tuple(Event.from_dict(event) for event in document["transcript"]),
            definition=document["definition"],
            insecure=document["insecure"],
        )


@dataclass(frozen=True, eq=False)
class Release:
    """A private table.

    Attributes
    ----------
    values
        The released numbers, in the shape of the counts unless the mechanism says otherwise.
    transcript
        The events it was drawn with.
    variances
        Exact noise variance: one float for all cells, an array in the shape of ``values``, or None when
        it is not known.
    insecure
        Whether the noise was predictable: such a release may not be published.
    diagnostics
        JSON-able values about the release, computed only from the measurements.
    """

    values: Array
    transcript: tuple[Event, ...]
    variances: float | NDArray[np.float64] | None = None
    insecure: bool = field(kw_only=True)  # no default: a finish that forgets it must not pass for secure
    diagnostics: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_plain(self.diagnostics, "diagnostics")
        check_array(self.values, "values")
        if type(self.variances) not in (float, type(None)):
            check_array(self.variances, "variances")


def check_plain(value: Any, where: str) -> None:
    """Refuse all but plain text, numbers, lists and dictionaries: an object can carry more than it shows."""
    if type(value) is dict:
        for key, part in value.items():
            check_plain(key, where)
            check_plain(part, where)
    elif type(value) in (list, tuple):
        for part in value:
            check_plain(part, where)
    elif type(value) not in _PLAIN:
        raise MechanismError(
            f"these must be plain text, numbers, lists and dictionaries, not {type(value).__name__}",
            where=where,
            hint="convert it, as in int(x), float(x) or x.tolist()",
        )


def check_array(value: Any, where: str) -> None:
    """Refuse what is not a NumPy array of numbers."""
    if type(value) is not np.ndarray or value.dtype.kind not in "iufbc":
        raise MechanismError(
            f"these must be arrays of numbers, not {type(value).__name__}",
            where=where,
            hint="convert it with numpy.asarray",
        )
