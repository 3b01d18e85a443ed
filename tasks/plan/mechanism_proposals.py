"""What other mechanisms would make of the same counts: each measures public ones with seeded noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.tasks.plan.aims import in_words
from tabularium.tasks.plan.public_counts import Counts
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.spec.load import Loaded

CANDIDATES = ("denoise", "ahp", "noise_first")
BETTER = 0.9
"""Error of another mechanism, in parts of that of plain noise, from which on it is proposed."""
_LARGEST = 50_000  # cells of a table that is tried; above it a simulation takes minutes
_LONG_ROW = 10_000  # cells for those that are slower
_RUNS = 2


@dataclass(frozen=True)
class Proposal:
    """How the errors of another mechanism compare with those of plain noise, on public counts.

    Attributes
    ----------
    level
        The deepest one, which is the largest.
    error
        Its root mean squared error over that of plain noise, both at the planned loss, before tables are made
        to agree and with negative numbers taken for 0.
    """

    table: str
    level: str
    mechanism: str
    error: float

    @property
    def where(self) -> str:
        """Table and level."""
        return in_words(self.table, self.level)

    @property
    def better(self) -> bool:
        """Whether it is worth a closer look."""
        return self.error <= BETTER


def proposals(loaded: Loaded, counts: Counts) -> Iterator[Proposal]:
    """Try other mechanisms on the deepest level of every table that is not too large.

    Tables with impossible cells are left alone: the mechanisms tried measure a table as a whole.
    """
    spec = loaded.spec
    for table in spec.tables:
        layout = Layout.of(loaded, table)
        if layout.impossible is not None:
            continue
        level = list(layout.cuts)[-1]
        true = np.rint(counts[table.name][layout.cuts[level]]).astype(np.int64).reshape(layout.shape(level))
        loss = spec.losses[table.name, level]
        plain = _error(table.mechanism, true, loss, spec.privacy.definition)
        for name in CANDIDATES:
            large = true.size > (_LARGEST if name == "denoise" else _LONG_ROW)
            if large or spec.privacy.definition not in MECHANISMS[name].definitions or not plain:
                continue
            error = _error(name, true, loss, spec.privacy.definition)
            if error is not None:
                yield Proposal(table.name, level, name, error / plain)


def _error(name: str, true: NDArray[np.int64], loss: Fraction, definition: Definition) -> float | None:
    """Return the root mean squared error of a mechanism; None where it does not take such a table."""
    squares = []
    for run in range(_RUNS):
        channel = SeededChannel(loss, seed=f"proposal {run}", definition=definition)
        try:
            values = build(name).release(np.maximum(true, 0), channel).values
        except MechanismError:
            return None
        squares.append(float(((np.maximum(values, 0) - true) ** 2).mean()))
    return float(np.sqrt(np.mean(squares)))
