"""The meaning of the columns of a published table, in words: the same in every format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tabularium.tasks.margins.error_model import MEANING
from tabularium.tasks.publish.published_tables import FLAGS, PublishedTable
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.publication import About, Quality
from tabularium.validations.release_spec.tables import Histogram, Table
from tabularium.validations.universes.universe import counted_in

RECORDS = "records"
_FLAG_MEANING = {
    "reliable": "no quality rule speaks against the cell",
    "unreliable": "use it with care: its margin of error is large",
    "suppressed": "left blank, because it is too uncertain to be of use",
    "unknown": "its margin of error is not known",
    "zero": "measured and published as 0, and not distinguishable from 0: its margin says what may be there",
    "exact": "known without having been measured: by a public number, or because nobody can be in the cell",
}
NO_SECONDARY = (
    "Cells are suppressed because they are unreliable and not because they would disclose anybody: every "
    "number has its noise already. So nothing else is blanked to keep a sum from giving a suppressed cell "
    "away."
)


@dataclass(frozen=True)
class DataDictionaryEntry:
    """One column of a published table.

    Attributes
    ----------
    name, kind
        As in the table; the kind of its values, codes spelled out.
    description
        What it means; empty where the title says it.
    unit
        Of a number: what is counted.
    domain
        Of a column of codes: the domain they are from.
    """

    name: str
    kind: pa.DataType
    title: str
    description: str = ""
    unit: str | None = None
    domain: Domain | None = None
    is_key: bool = False


def column_meanings(loaded: Loaded, table: PublishedTable) -> list[DataDictionaryEntry]:
    """Return the columns of a table or histogram, in the order of its frame."""
    entry = table.entry
    meaning = _of_histogram(entry) if isinstance(entry, Histogram) else _of_table(loaded, entry, table.method)
    known = {name: (title, description, more) for name, title, description, more in meaning}
    meanings = []
    for field in table.frame.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        title, description, more = known[field.name]
        meanings.append(DataDictionaryEntry(field.name, kind, title, description, **more))
    return meanings


def title_of(entry: Table | Histogram) -> str:
    """Return the title of a table or a histogram."""
    return entry.title or entry.name


def title_of_release(loaded: Loaded) -> str:
    """Return the title of the release, with its period."""
    return title_with_period(loaded.spec.about, loaded.spec.product, loaded.spec.period)


def title_with_period(about: About, product: str, period: str) -> str:
    """Return the title of a release of a product, with its period."""
    return f"{about.title or product}, {period}"


def confidence(loaded: Loaded) -> str:
    """Return the level of the margins as a percentage."""
    return f"{float(100 * loaded.spec.publication.confidence):g} %"


Columns = Iterator[tuple[str, str, str, dict[str, Any]]]  # name, title, description, and what else is known


def _of_histogram(entry: Histogram) -> Columns:
    yield "size", "Size", f"How many records a value of {entry.of} has.", {"unit": RECORDS, "is_key": True}
    yield (
        "number",
        "Number",
        f"How many values of {entry.of} have this size, with noise.",
        {"unit": f"values of {entry.of}"},
    )


def _of_table(loaded: Loaded, entry: Table, method: str) -> Columns:
    if entry.along is not None:
        along = loaded.domains[entry.along]
        levels = ", ".join(along.levels) if isinstance(along, HierarchyDomain) else ""
        text = f"The level of {entry.along} to which the row belongs: {levels}. Each level counts all records"
        yield "level", "Level", f"{text} again: choose one before adding rows up.", {}
    for name in entry.dimensions:
        title = loaded.spec.columns[name].title or name
        yield name, title, "", {"domain": loaded.domains[name], "is_key": True}
        yield f"{name}_label", f"{title}: label", f"What the code in {name} stands for.", {}
    rules = loaded.spec.publication.quality
    if rules is not None:
        yield "quality", "Quality", quality_in_words(rules), {}
    counted = f"How many records, with noise; counted: {counted_in(loaded.spec, entry)}."
    yield "count", "Count", counted, {"unit": RECORDS}
    margin = f"Margin of error of the count at a level of {confidence(loaded)}. {_meaning(method)}"
    yield "margin", "Margin of error", margin, {"unit": RECORDS}
    for name, measure in entry.measures.items():
        title, shown = measure.title or name, measure.shown_unit
        unit = {} if shown is None else {"unit": shown}
        yield name, title, measure.description, unit
        yield f"{name}_margin", f"{title}: margin of error", _margin_of(loaded, measure), unit
        if rules is not None:
            yield f"{name}_quality", f"{title}: quality", measure_quality(rules, measure), {}


def _margin_of(loaded: Loaded, measure: Measure) -> str:
    method = None if measure.parts == 1 else measure.margin_method
    how = "" if method is None else f" {_meaning(method)}"
    return f"Margin of error of the {measure.in_words} at a level of {confidence(loaded)}.{how}"


def _meaning(method: str) -> str:
    return next(text for name, text in MEANING.items() if name == method)


def quality_in_words(rules: Quality) -> str:
    """Return the meaning of the flags, and the rules behind them."""
    limits = [
        f"{flag} where the margin of error is above {_limit(limit)}"
        for flag, limit in (("unreliable", rules.unreliable), ("suppressed", rules.suppress))
        if limit is not None
    ]
    if rules.at_least is not None:
        limits.append(f"suppressed where the published count is below {rules.at_least}")
    flags = "; ".join(f"{flag}: {_FLAG_MEANING[flag]}" for flag in FLAGS)
    return f"{flags}. Rules: {', '.join(limits)}. {NO_SECONDARY}"


def measure_quality(rules: Quality, measure: Measure) -> str:
    """Return the meaning of the flags of a measure, in words."""
    of, limits = rules.limits_of(measure)
    what = "the published value" if of == "value" else measure.part_of
    qualities = [
        f"{flag} where the margin of error is above {_limit(limit, what)}"
        for flag, limit in (("unreliable", limits.unreliable), ("suppressed", limits.suppress))
        if limit is not None
    ]
    blank = "suppressed where the count is, and where too few records were seen"
    return f"As quality, for the {measure.in_words}. Rules: {', '.join([*qualities, blank])}."


def _limit(limit: Any, of: str = "the published count") -> str:
    return str(limit) if isinstance(limit, int) else f"{float(100 * limit):g} % of {of}"
