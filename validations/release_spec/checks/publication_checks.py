"""Publication and targets: formats, quality rules, review, and wanted margins that can be judged."""

from __future__ import annotations

import os

from tabularium.validations.release_spec.checks.table_checks import along_of
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.problems import Path, choose, quoted
from tabularium.validations.release_spec.publication import MeasureLimits, Publication, Quality, Review
from tabularium.validations.release_spec.publication_formats import FORMATS, complete_formats
from tabularium.validations.release_spec.tables import TableEntry
from tabularium.validations.release_spec.targets import MarginTarget, RelativeTarget, Target, UnreliableTarget


def check_publication(partial: PartialSpec) -> None:
    """Check that at least one format is written and none twice, and that quality rules say something.

    What is made from the measurements of an earlier release is a revision of it.
    """
    if (
        partial.document.data.get("measurements_of") is not None
        and partial.document.data.get("revises") is None
    ):
        hint = "say why it is published again: revises, or --revises REASON"
        partial.add(("measurements_of",), "is of a revision only, and there is no reason for one", hint)
    formats = partial.publication.formats if partial.publication is not None else ("csv",)
    path = ("publication", "formats")
    complete = complete_formats()
    if not formats:
        partial.add(path, "is empty", "write at least one, for instance csv")
    elif not set(complete) & set(formats):
        what = f"neither {' nor '.join(complete)} is here"
        partial.add(path, what, "add one of them: every other reader needs it")
    if len(set(formats)) < len(formats):
        partial.add(path, "a format is here twice", "write every format once")
    for index, name in enumerate(formats):
        if name not in FORMATS:
            hint = f"write {' or '.join(FORMATS)}"
            partial.add((*path, index), f"{quoted(name)} is not one of the choices", hint)
    if partial.publication is not None and partial.publication.quality is not None:
        _check_quality(partial, partial.publication.quality)
    if partial.publication is not None and partial.publication.review is not None:
        _check_review(partial, partial.publication, partial.publication.review)


def _check_quality(partial: PartialSpec, quality: Quality) -> None:
    """Check that there is a limit, and that what is left blank is worse than what is flagged."""
    path = ("publication", "quality")
    flagged, blank = quality.unreliable, quality.suppress
    if quality == Quality():
        partial.add(path, "is empty", 'write a limit, for instance {unreliable: "30%"}')
    elif flagged is not None and type(flagged) is type(blank) and blank <= flagged:
        what = "leaves blank all that `unreliable` would flag"
        partial.add((*path, "suppress"), what, "write a larger limit, or leave out unreliable")
    for name in ("sums", "rates", "means"):
        limits: MeasureLimits | None = getattr(quality, name)
        if limits is None:
            continue
        if (limits.unreliable, limits.suppress) == (None, None):
            partial.add((*path, name), "has no limit", 'write one, for instance {unreliable: "10%"}')
        elif (
            limits.unreliable is not None
            and limits.suppress is not None
            and limits.suppress <= limits.unreliable
        ):
            what = "leaves blank all that `unreliable` would flag"
            partial.add((*path, name, "suppress"), what, "write a larger limit, or leave out unreliable")


def check_formats(partial: PartialSpec) -> None:
    """Check that every format that is wanted can write the tables; they are checked already."""
    for name in partial.publication.formats if partial.publication is not None else ():
        if name in FORMATS:
            FORMATS[name].check(partial)


def _check_review(partial: PartialSpec, publication: Publication, review: Review) -> None:
    """Check that there is something to decide by, and that nothing is kept or public that must not be."""
    path = ("publication", "review")
    if not review.criteria:
        partial.add((*path, "criteria"), "is empty", "write at least one, for instance implausible")
    if len(set(review.criteria)) < len(review.criteria):
        partial.add((*path, "criteria"), "a criterion is here twice", "write every criterion once")
    public, drafts = (os.path.normpath(folder) for folder in (publication.folder, review.folder))
    if f"{drafts}/".startswith(f"{public}/"):
        partial.add((*path, "folder"), "lies where releases are published", "name another, such as drafts")
    kept = partial.document.data.get("workspace")
    if isinstance(kept, dict) and kept.get("keep") is True:
        what = "true counts are removed before a draft is reviewed"
        partial.add(("workspace", "keep"), what, "leave it out, or leave out publication.review")


def check_targets(partial: PartialSpec) -> None:
    """Check the targets that could be read."""
    tables = {table.name: (index, table) for index, table in partial.tables}
    for index, target in partial.targets:
        path: Path = ("targets", index)
        number, table = tables.get(target.table, (0, None))
        if table is None:
            _check_counts(partial, path, target)
            if all(partial.reads(("tables", number, "name")) for number, _ in partial.tables):
                what = f"there is no table {quoted(target.table)}"
                partial.add((*path, "table"), what, choose(target.table, list(tables), "tables"))
            continue
        measure = table.measures.get(target.measure or "")
        if measure is None:
            _check_counts(partial, path, target)
            if target.measure is not None and partial.reads(("tables", number, "measures")):
                what = f"table {table.name} has no measure {quoted(target.measure)}"
                hint = choose(target.measure, list(table.measures), "measures")
                partial.add((*path, "measure"), what, hint)
        else:
            _check_measure(partial, path, target, measure)
        if partial.reads(("tables", number, "dimensions")) and partial.reads(("tables", number, "levels")):
            _check_level(partial, path, target, table)


def _check_counts(partial: PartialSpec, path: Path, target: Target) -> None:
    """Check what is wanted of counts and sums: one margin for all cells, and quality rules that flag some."""
    if isinstance(target, UnreliableTarget):
        quality = partial.publication.quality if partial.publication is not None else None
        if partial.publication is not None and (quality is None or quality.unreliable is None):
            what = "nothing says when a cell is unreliable"
            hint = 'write publication: {quality: {unreliable: "30%"}}'
            partial.add((*path, "unreliable"), what, hint)
    elif isinstance(target, MarginTarget):
        for key in ("at", "value"):
            if getattr(target, key) is not None:
                partial.add((*path, key), "is for a mean or rate", f"remove {key}, or name its measure")


def _check_measure(partial: PartialSpec, path: Path, target: Target, measure: Measure) -> None:
    """Check what is wanted of a measure: of a sum as of a count, of a mean or rate at a number of records."""
    if not measure.plannable:
        why = "" if measure.linear else ", which depends on where the values lie"
        why = " over other numbers" if measure.denominator else why
        what = f"no budget is planned for the margin of a {measure.in_words}{why}"
        partial.add(
            (*path, "measure"), what, "remove this target; its share stays in proportion to the count"
        )
    elif isinstance(target, UnreliableTarget):
        hint = 'write margin: 25, or of a sum relative: "10%" with at: 500'
        partial.add((*path, "unreliable"), "is for counts", hint)
    elif measure.linear:
        _check_counts(partial, path, target)
    elif isinstance(target, RelativeTarget):
        hint = f"write the margin of the {measure.kind} as margin: 25"
        partial.add((*path, "relative"), "is for counts and sums", hint)
    elif target.at is None:
        what = f"the margin of a {measure.kind} depends on how many records there are"
        partial.add(path, what, "write both, as in margin: 25, at: 500 (records in a cell)")
    elif target.value is not None and not (
        measure.bottom <= target.value <= measure.bottom + max(measure.spans)
    ):
        hint = f"write a {measure.kind} that lies between them"
        partial.add((*path, "value"), "lies beyond the bounds of the measure", hint)


def _check_level(partial: PartialSpec, path: Path, target: Target, table: TableEntry) -> None:
    if target.level is None or any(name not in partial.domains for name in table.dimensions):
        return
    along = along_of(table, partial.domains)
    measured = list(table.levels or ())
    if along is None:
        partial.add((*path, "level"), "no dimension of this table is a hierarchy", "remove level")
        return
    if any(level not in along.levels for level in measured):
        return  # which has been reported of the table
    deepest = max((along.levels.index(level) for level in measured), default=len(along.levels) - 1)
    shown = list(along.levels[: deepest + 1])
    if partial.postprocessing is not None and not partial.postprocessing.consistency:
        shown = measured or [along.levels[-1]]
    if target.level not in shown:
        what = f"table {table.name} publishes no level {quoted(target.level)}"
        partial.add((*path, "level"), what, choose(target.level, shown, "levels"))
