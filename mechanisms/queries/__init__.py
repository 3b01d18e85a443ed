"""Queries on a release: count, share, sum, average, quantile, minimum and maximum, with their errors.

``ask`` (``answers``) reads the text (``grammar``), finds the tables and arrays of measures that know what is
asked (``measures``), binds it to the attributes of each (``attributes``, ``selection``), asks every source
for the sums that are selected (``sources``), and computes the answer from the best known one (``estimators``,
``measures``). All of it sees published numbers only and costs no budget.
"""

from tabularium.mechanisms.queries.answers import METHODS, Answer, Row, ask, describe
from tabularium.mechanisms.queries.attributes import Attribute, TreeAttribute
from tabularium.mechanisms.queries.grammar import parse
from tabularium.mechanisms.queries.measures import MeasuredAttribute
from tabularium.mechanisms.queries.selection import Axes
from tabularium.mechanisms.queries.sources import (
    KnownSums,
    Measurement,
    NoisyTable,
    PublishedCells,
    PublishedTable,
    QuerySource,
    QueryTable,
)

__all__ = [
    "METHODS",
    "Answer",
    "Attribute",
    "Axes",
    "KnownSums",
    "MeasuredAttribute",
    "Measurement",
    "NoisyTable",
    "PublishedCells",
    "PublishedTable",
    "QuerySource",
    "QueryTable",
    "Row",
    "TreeAttribute",
    "ask",
    "describe",
    "parse",
]
