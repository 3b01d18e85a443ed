"""What an answer says: its rows, how their errors are known, and both in words."""

from __future__ import annotations

from dataclasses import dataclass

from tabularium.mechanisms.queries.grammar import Measure
from tabularium.mechanisms.queries.measure_arrays import MeasuredAttribute

METHODS = {
    "noise": (
        "From the noisy measurement of every cell before post-processing. Its noise is independent and of "
        "known variance, so the variance of a sum is exact; the interval holds for each row by itself."
    ),
    "least squares": (
        "From all noisy measurements before post-processing, of cells, of sums of cells and of levels, by "
        "weighted least squares. The variance is exact, with what the estimates of different cells have in "
        "common; the interval holds for each row by itself."
    ),
    "chosen sums": (
        "From the noisy measurements before post-processing. Noise decided which groups of cells were "
        "measured together: a row that is made of such groups is answered from their sums, which were drawn "
        "afterwards, and any other from what was drawn before. The variance is exact in either case, and the "
        "interval holds for each row by itself."
    ),
    "published": (
        "From the published cells. The variance of their noise is exact; what non-negativity and rounding "
        "moved is taken from the published margins and added up in full. The interval holds for each row by "
        "itself, and is wide for sums over many cells."
    ),
    "added up": (
        "From the published cells, whose errors may go together in any way: their margins are added up, the "
        "worst case (Cauchy-Schwarz). Where margins hold on average over the cells and not for each, as the "
        "certificate says, so do these intervals: on average over sums of this size."
    ),
    "single cell": (
        "From published cells, each row one of them, with their margins of error: there are no published "
        "measurements from which more could be known."
    ),
    "unknown": "From the published cells. Nothing is known of their errors, so there are no intervals.",
}


@dataclass(frozen=True)
class Row:
    """One line of an answer; None where there is nothing to say.

    Attributes
    ----------
    group
        (code, label) for each name of the query's ``by``.
    value, standard_error, low, high
        The estimate, the root mean square of its error (or a bound of it), and the interval.
    published
        The same computed from the published cells.
    """

    group: tuple[tuple[str, str], ...]
    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    published: float | None


@dataclass(frozen=True)
class Answer:
    """What came out.

    Attributes
    ----------
    measure
        What was computed.
    headings
        The names of the query's ``by``.
    rows
        One for each combination of groups that has cells.
    level
        Of the intervals.
    table, method
        Which table, and how its errors are known: a key of ``METHODS``.
    cells
        How many cells of the measured table the largest row sums.
    binned
        Whether numbers are known up to bins only, so that the intervals hold more than noise.
    up_to
        Where the last bin ends on the word of whoever asked; None where nobody said.
    of
        The measure of the table that it was computed from, with its bounds; None for counts.
    invariants
        Names of the public numbers that were made use of.
    spread
        Whether rows cut groups of cells of which the sums alone were measured: published cells answer.
    shares
        What shares are of, as a sentence; empty for anything else.
    """

    measure: Measure
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    level: float
    table: str
    method: str
    cells: int
    binned: bool
    up_to: str | None = None
    of: MeasuredAttribute | None = None
    invariants: tuple[str, ...] = ()
    spread: bool = False
    shares: str = ""


def explain(answer: Answer) -> str:
    """Return how the intervals of an answer are made, in sentences."""
    said = [METHODS[answer.method]]
    if answer.spread:
        said.append(
            "What is asked is no combination of what was measured: it cuts groups of cells of which the sums "
            "alone were measured, and whose counts are spread evenly within each group."
        )
    if answer.shares:
        said.append(
            f"{answer.shares} The interval of a share holds every ratio that the part and the rest allow."
        )
    if answer.measure == "average":
        said.append("The interval of an average holds every ratio that the sum and the count together allow.")
    if answer.measure in {"min", "max"}:
        said.append(
            "The answer is the most extreme value that surely occurs; what lies beyond it in the interval "
            "may occur so rarely that noise hides it."
        )
    if answer.invariants:
        said.append(
            f"Made use of are the public numbers {' and '.join(answer.invariants)}: what they fix is exact, "
            "and a part of it is known better."
        )
    if answer.of is not None:
        said.append(answer.of.about)
    if answer.measure == "quantile":
        said.append(
            "The interval of a quantile holds every number that could have this share of all up to it."
        )
    if answer.binned and answer.measure in {"sum", "average", "quantile"}:
        said.append(
            "Numbers are published in bins: the answer takes every record at the middle of its bin, and the "
            "interval holds whatever their spread inside the bins could make of it."
        )
    if answer.up_to is not None:
        said.append(f"The last bin was taken to end at {answer.up_to}, as the question says.")
    return " ".join(said)
