"""Publication: formats, quality rules and review, and what must fit together there."""

from __future__ import annotations

import os

from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.output_options import MeasureLimits, Publication, Quality, Review
from tabularium.validations.spec.problems import quoted
from tabularium.validations.spec.publication_formats import FORMATS, complete_formats


def check_publication(draft: Draft) -> None:
    """Check that at least one format is written and none twice, and that quality rules say something.

    What is made from the measurements of an earlier release is a revision of it.
    """
    if draft.document.data.get("measurements_of") is not None and draft.document.data.get("revises") is None:
        hint = "say why it is published again: revises, or --revises REASON"
        draft.add(("measurements_of",), "is of a revision only, and there is no reason for one", hint)
    formats = draft.publication.formats if draft.publication is not None else ("csv",)
    path = ("publication", "formats")
    complete = complete_formats()
    if not formats:
        draft.add(path, "is empty", "write at least one, for instance csv")
    elif not set(complete) & set(formats):
        what = f"neither {' nor '.join(complete)} is here"
        draft.add(path, what, "add one of them: every other reader needs it")
    if len(set(formats)) < len(formats):
        draft.add(path, "a format is here twice", "write every format once")
    for place, name in enumerate(formats):
        if name not in FORMATS:
            hint = f"write {' or '.join(FORMATS)}"
            draft.add((*path, place), f"{quoted(name)} is not one of the choices", hint)
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


def check_formats(draft: Draft) -> None:
    """Check that every format that is wanted can write the tables; they are checked already."""
    for name in draft.publication.formats if draft.publication is not None else ():
        if name in FORMATS:
            FORMATS[name].check(draft)


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
