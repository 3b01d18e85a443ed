"""An experiment: which mechanisms, on which data, at which ε, judged how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tabularium.lab.comparison.data_sets import DataSet
from tabularium.lab.comparison.error_measures import CATALOGUE, Measure

Published = Mapping[tuple[str, str, str], float]
"""What a paper prints, by data set, label of the mechanism, and ε as text."""


@dataclass(frozen=True)
class Contender:
    """A mechanism with its parameters, as it is called in tables.

    Attributes
    ----------
    label
        As it is called in tables and plots.
    name
        In the registry.
    parameters
        Fixed ones, as pairs (hashable).
    """

    label: str
    name: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, label: str, name: str | None = None, **parameters: Any) -> Contender:
        """Return the contender ``label``, which is also its registered name unless another is given."""
        return cls(label, name or label, tuple(parameters.items()))


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes
    ----------
    name
        As the paper calls it, or a short title.
    says
        What it shows and how to read it, one or two sentences.
    contenders
        The mechanisms; a mapping where they differ by data set.
    published
        The paper's figures for the first measure.
    runs
        Runs of each mechanism unless the user asks for another number.
    """

    name: str
    says: str
    data: tuple[DataSet, ...]
    contenders: tuple[Contender, ...] | Mapping[str, tuple[Contender, ...]]
    epsilons: tuple[Fraction, ...]
    measures: tuple[str, ...]
    runs: int = 10
    published: Published = field(default_factory=dict)

    def taking_part(self, data: DataSet) -> tuple[Contender, ...]:
        """Return the mechanisms that are run on ``data``."""
        return self.contenders[data.name] if isinstance(self.contenders, Mapping) else self.contenders

    def judged_by(self) -> tuple[Measure, ...]:
        """Return the measures."""
        return tuple(CATALOGUE[name] for name in self.measures)


@dataclass(frozen=True)
class Suite:
    """Experiments that belong together, such as those of a paper."""

    name: str
    title: str
    says: str
    experiments: tuple[Experiment, ...]


def epsilons(*texts: str) -> tuple[Fraction, ...]:
    """Return exact values of ε."""
    return tuple(Fraction(text) for text in texts)
