"""Queries on a release: count, share, sum, average, quantile, minimum and maximum, with the errors they have.

``ask`` reads the text (``grammar``), finds the tables and arrays of measures that know what is asked
(``measure_arrays``), binds it to the attributes of each (``query_plan``,
``attributes``), sums the selected cells of every source with their errors (``answer_sources``,
``selection``, ``leaf_sums``, ``selected_cells``), and computes the answer from the best known one
(``measures``, ``shares``). All of it sees published numbers only and costs no budget.
"""

from tabularium.mechanisms.queries.answer_sources import (
    Askable,
    KnownSums,
    Measurement,
    NoisyTable,
    PublishedCells,
    PublishedTable,
    QueryTable,
)
from tabularium.mechanisms.queries.answers import METHODS, Answer, Row, ask, explain
from tabularium.mechanisms.queries.attributes import Attribute, TreeAttribute
from tabularium.mechanisms.queries.grammar import parse
from tabularium.mechanisms.queries.measures import MeasuredAttribute
from tabularium.mechanisms.queries.selection import Axes

__all__ = [
    "METHODS",
    "Answer",
    "Askable",
    "Attribute",
    "Axes",
    "KnownSums",
    "MeasuredAttribute",
    "Measurement",
    "NoisyTable",
    "PublishedCells",
    "PublishedTable",
    "QueryTable",
    "Row",
    "TreeAttribute",
    "ask",
    "explain",
    "parse",
]
