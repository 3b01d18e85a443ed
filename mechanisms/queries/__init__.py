"""Queries on a release: count, sum, average, minimum and maximum, with the errors they have.

``ask`` reads the text (``grammar``), binds it to the attributes of each table (``query_plan``,
``attributes``), sums the selected cells of every source with their errors (``answer_sources``,
``selection``, ``leaf_sums``, ``selected_cells``), and computes the answer from the best known one
(``measures``). ``usefulness`` says beforehand how large errors can be. All of it sees published numbers
only and costs no budget.
"""

from mechanisms.queries.answer_sources import Measurement, NoisyTable, PublishedTable
from mechanisms.queries.answers import METHODS, Answer, Askable, QueryTable, Row, ask, explain
from mechanisms.queries.attributes import Attribute, TreeAttribute
from mechanisms.queries.grammar import parse
from mechanisms.queries.selection import Axes
from mechanisms.queries.usefulness import (
    Usefulness,
    every_query_margin,
    failure_probability,
    posterior_bounds,
    records_needed,
    usefulness,
)

__all__ = [
    "METHODS",
    "Answer",
    "Askable",
    "Attribute",
    "Axes",
    "Measurement",
    "NoisyTable",
    "PublishedTable",
    "QueryTable",
    "Row",
    "TreeAttribute",
    "Usefulness",
    "ask",
    "every_query_margin",
    "explain",
    "failure_probability",
    "parse",
    "posterior_bounds",
    "records_needed",
    "usefulness",
]
