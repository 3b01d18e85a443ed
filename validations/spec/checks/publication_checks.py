"""Publication: formats, quality rules and review, and what must fit together there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain

from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.domains.sdmx_names import time_period
from tabularium.validations.spec.checks.table_checks import table_rows
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.output_options import MeasureLimits, Publication, Quality, Review
from tabularium.validations.spec.problems import Path, quoted

SHEET_ROWS = 1_048_573  # of a workbook, below two rows of title and the header
_FORMULA_STARTS = ("=", "+", "-", "@")


def check_publication(draft: Draft) -> None:
    """Check that at least one format is written and none twice, and that quality rules say something.

    What is made from the measurements of an earlier release is a revision of it.
    """
    if draft.document.data.get("measurements_of") is not None and draft.document.data.get("revises") is None:
        hint = "say why it is published again: revises, or --revises REASON"
        draft.add(("measurements_of",), "is of a revision only, and there is no reason for one", hint)
    formats = draft.publication.formats if draft.publication is not None else ("csv",)
    path = ("publication", "formats")
    if not formats:
        draft.add(path, "is empty", "write at least one, for instance csv")
    elif not {"csv", "parquet"} & set(formats):
        draft.add(path, "neither csv nor parquet is here", "add one of them: every other reader needs it")
    if len(set(formats)) < len(formats):
        draft.add(path, "a format is here twice", "write every format once")
    period = draft.document.data.get("period")
    if "sdmx" in formats and isinstance(period, str | int) and time_period(str(period)) is None:
        hint = "write such as 2026, 2026-Q1, 2026-03 or 2026-03-01, or take sdmx out of publication.formats"
        draft.add(("period",), f"{quoted(period)} is no period that SDMX can write", hint)
    if draft.publication is not None and draft.publication.quality is not None:
        _check_quality(draft, draft.publication.quality)
    if draft.publication is not None and draft.publication.review is not None:
        _check_review(draft, draft.publication, draft.publication.review)


def _check_quality(draft: Draft, quality: Quality) -> None:
    """Check that there is a limit, and that what is left blank is worse than what is flagged."""
    path = ("publication", "quality")
    flagged, blank = quality.unreliable, quality.suppress
    if quality == Quality():
        draft.add(path, "is empty", 'write a limit, for instance {unreliable: "30%"}')
    elif flagged is not None and type(flagged) is type(blank) and blank <= flagged:
        what = "leaves blank all that `unreliable` would flag"
        draft.add((*path, "suppress"), what, "write a larger limit, or leave out unreliable")
    for name in ("sums", "rates", "means"):
        own: MeasureLimits | None = getattr(quality, name)
        if own is None:
            continue
        if (own.unreliable, own.suppress) == (None, None):
            draft.add((*path, name), "has no limit", 'write one, for instance {unreliable: "10%"}')
        elif own.unreliable is not None and own.suppress is not None and own.suppress <= own.unreliable:
            what = "leaves blank all that `unreliable` would flag"
            draft.add((*path, name, "suppress"), what, "write a larger limit, or leave out unreliable")


def check_sheets(draft: Draft) -> None:
    """Check that every table fits a sheet of a workbook, where one is wanted."""
    wanted = draft.publication.formats if draft.publication is not None else ()
    added_up = draft.postprocessing is None or draft.postprocessing.consistency
    for place, table in draft.tables if "xlsx" in wanted else ():
        path: Path = ("tables", place)
        if all(name in draft.domains for name in table.dimensions) and draft.reads((*path, "levels")):
            rows = table_rows(table, draft.domains, added_up=added_up)
            if rows > SHEET_ROWS:
                what = f"has {rows} rows, and a sheet of a workbook holds {SHEET_ROWS} below its header"
                draft.add(path, what, "take xlsx out of publication.formats, or cross fewer columns")


def formula_notes(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> Iterator[str]:
    """Yield each published column with texts that a spreadsheet takes for formulas when it opens a CSV."""
    if "csv" not in spec.publication.formats:
        return
    for name in sorted({name for table in spec.tables for name in table.dimensions}):
        domain = domains[name]
        if isinstance(domain, HierarchyDomain):
            texts = chain(domain.node_codes, domain.node_labels)
        else:
            texts = chain(domain.codes, domain.labels)
        first = next(
            (text for text in texts if text.startswith(_FORMULA_STARTS) and not _is_number(text)), None
        )
        if first is not None:
            yield (
                f"column {name} has codes or labels such as {quoted(first)}, which a spreadsheet that opens "
                "the CSV file takes for a formula; begin them otherwise, or publish xlsx, where they are text"
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_review(draft: Draft, publication: Publication, review: Review) -> None:
    """Check that there is something to decide by, and that nothing is kept or public that must not be."""
    path = ("publication", "review")
    if not review.criteria:
        draft.add((*path, "criteria"), "is empty", "write at least one, for instance implausible")
    if len(set(review.criteria)) < len(review.criteria):
        draft.add((*path, "criteria"), "a criterion is here twice", "write every criterion once")
    public, drafts = (os.path.normpath(folder) for folder in (publication.folder, review.folder))
    if f"{drafts}/".startswith(f"{public}/"):
        draft.add((*path, "folder"), "lies where releases are published", "name another, such as drafts")
    kept = draft.document.data.get("workspace")
    if isinstance(kept, dict) and kept.get("keep") is True:
        what = "true counts are removed before a draft is reviewed"
        draft.add(("workspace", "keep"), what, "leave it out, or leave out publication.review")
