"""A draft to be reviewed: its report, what changed, whether targets are met, and the decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tabularium
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.safety import REPORT_POLICY, Asked, Document, Elsewhere, Page
from tabularium.flows.desk.signing import decide
from tabularium.ledger.records import SYMBOLS
from tabularium.mechanisms.errors import InputError, PublicationError, TabulariumError
from tabularium.tasks.plan.targets import in_figures
from tabularium.tasks.report.wording import whole

_MOST_CELLS = 8  # that are listed of each table: those that changed most
_REPORT = "report.html"


@dataclass(frozen=True)
class Judged:
    """A target of the spec, what the draft states of it, and whether it is met; None where nobody can say."""

    about: str
    wanted: str
    stated: str
    met: bool | None


def look(desk: Desk, asked: Asked) -> Page:
    """Show a draft, and ask for a decision."""
    name = asked.path["release"]
    with desk.books() as books:
        charged = books.charged(name)
        symbol = SYMBOLS[books.account(charged.charge.account).definition]
        folder = books.draft_folder(name, folders=desk.folders)
        since = books.releases(charged.charge.product, folders=desk.folders)
    if charged.draft is None:
        raise InputError("waits for no review", where=f"release {name}", hint="see the page of its account")
    shown: dict[str, Any] = {"draft": None, "changed": None, "targets": [], "report": False, "altered": None}
    if folder is not None:
        shown |= _of_folder(folder, charged.draft.digest, since, charged.charge.period)
    return Page(
        "draft.html.jinja",
        {
            "charge": charged.charge,
            "symbol": symbol,
            "laid_out": charged.draft,
            "standing": charged.standing,
            "folder": folder,
            "own": folder is not None and not any(folder.is_relative_to(copy) for copy in desk.folders),
            "commands": _commands(desk, name),
            **shown,
        },
    )


def report(desk: Desk, asked: Asked) -> Document:
    """Return the report of a draft, for a frame without scripts."""
    name = asked.path["release"]
    with desk.books() as books:
        laid_out = books.charged(name).draft
        folder = books.draft_folder(name, folders=desk.folders)
    if laid_out is None or folder is None or not (folder / _REPORT).is_file():
        raise InputError("has no report here", where=f"release {name}", hint="see its folder")
    _opened(folder, laid_out.digest)
    return Document((folder / _REPORT).read_bytes(), "text/html", REPORT_POLICY)


def accept(desk: Desk, asked: Asked) -> Elsewhere | Page:
    """Accept the draft that was looked at."""
    name, consulted = asked.path["release"], _consulted(asked)
    with desk.books() as books:
        charge = books.charged(name).charge
        folder = books.draft_folder(name, folders=desk.folders)
    if folder is None and not charge.final:
        raise InputError(
            "is not on this machine, and a draft must be seen to be accepted",
            where=f"the draft of release {name}",
            hint="copy its folder here and name it with --folder",
        )

    def act(one: tabularium.Officer) -> tabularium.Decided:
        return one.accept(name, draft=asked.value("draft"), consulted_confidential=consulted, copy=folder)

    return decide(
        *(desk, asked, act),
        title=f"Accept the draft of {charge.product}, {charge.period}",
        says=[
            f"Release {name}",
            "It is published byte for byte as it was shown. This is not taken back.",
            *_outside(consulted),
        ],
        about=f"{charge.product}, {charge.period}",
        back=f"/drafts/{name}",
        address=f"/drafts/{name}/accept",
    )


def withhold(desk: Desk, asked: Asked) -> Elsewhere | Page:
    """Withhold the draft that was looked at, for one of its criteria."""
    name, criterion, consulted = asked.path["release"], asked.value("criterion"), _consulted(asked)
    if not criterion:
        raise InputError("names no criterion", where="criterion", hint="choose one of those that were agreed")
    with desk.books() as books:
        charge = books.charged(name).charge

    def act(one: tabularium.Officer) -> tabularium.Decided:
        return one.withhold(
            name, draft=asked.value("draft"), criterion=criterion, consulted_confidential=consulted
        )

    return decide(
        *(desk, asked, act),
        title=f"Withhold the draft of {charge.product}, {charge.period}: {criterion}",
        says=[
            f"Release {name}",
            "It is never published, and its budget stays spent. This is not taken back.",
            *_outside(consulted),
        ],
        about=f"{charge.product}, {charge.period}",
        back=f"/drafts/{name}",
        address=f"/drafts/{name}/withhold",
        goes_on=False,
    )


def _consulted(asked: Asked) -> bool:
    """Return what was answered: there is no answer that counts unless it is given."""
    answer = asked.value("consulted")
    if answer not in ("yes", "no"):
        raise InputError(
            "was not answered",
            where="whether confidential figures were consulted",
            hint="go back and answer yes or no; either is recorded",
        )
    return answer == "yes"


def _outside(consulted: bool) -> list[str]:
    return (
        ["Confidential figures were consulted: the decision is outside the guarantee."] if consulted else []
    )


def _commands(desk: Desk, name: str) -> list[str]:
    rest = f"--key FILE{desk.option}"
    return [
        f"tabularium ledger accept {name} {rest}",
        f"tabularium ledger withhold {name} --criterion CRITERION {rest}",
    ]


def _of_folder(folder: Path, digest: str, since: list[tabularium.Published], period: str) -> dict[str, Any]:
    """Return what is shown of a draft that lies here; nothing where it is not the one that was laid out."""
    try:
        draft = _opened(folder, digest)
    except TabulariumError as error:
        return {"altered": error.line()}
    before = next((release for release in since if release.period != period and _usable(release)), None)
    return {
        "draft": draft,
        "report": (folder / _REPORT).is_file(),
        "targets": list(_targets(draft)),
        "changed": None if before is None else _changed(draft, before),
    }


def _opened(folder: Path, digest: str) -> tabularium.Release:
    """Open a draft whose files are all unchanged."""
    draft = tabularium.open(folder)
    if draft._released.digest != digest:
        raise PublicationError(
            "this is not the draft that was laid out for review",
            where=str(folder),
            hint="put it back as it was laid out, from a copy",
        )
    return draft


def _usable(release: tabularium.Published) -> bool:
    return release.folder is not None and release.state == "current"


def _changed(draft: tabularium.Release, before: tabularium.Published) -> dict[str, Any] | None:
    """Return how many cells changed by more than their margin, and how many would by chance."""
    try:
        changes = tabularium.diff(tabularium.open(before.folder or ""), draft)
        assert isinstance(changes, tabularium.Changes)  # noqa: S101 - of two releases
        tables = [
            {**row, "by_chance": in_figures(row["by_chance"]), "largest": _largest(changes, row["table"])}
            for row in changes.summary.astype({"level": object}).fillna({"level": ""}).to_dict("records")
        ]
    except TabulariumError as error:
        return {"period": before.period, "tables": [], "reasons": {before.release: error.line()}}
    return {"period": before.period, "tables": tables, "reasons": changes.reasons}


def _largest(changes: tabularium.Changes, name: str) -> list[dict[str, Any]]:
    """Return the cells of a table that changed most, relative to their margins."""
    frame = changes[name].to_pandas(level=changes[name].levels or None)
    frame = frame[frame["difference"].notna() & frame["margin"].notna() & (frame["margin"] > 0)]
    ratio = (frame["difference"].astype(float).abs() / frame["margin"].astype(float)).sort_values()
    keys = [column for column in frame.columns if column in changes[name].dimensions or column == "level"]
    return [
        {
            "cell": ", ".join(str(row[key]) for key in keys if row[key] not in ("", None)),
            **{key: whole(row[key]) for key in ("before", "after", "difference", "margin")},
            "beyond": bool(row["beyond"]),
        }
        for row in frame.loc[ratio.index[::-1][:_MOST_CELLS]].to_dict("records")
    ]


def _targets(draft: tabularium.Release) -> Iterator[Judged]:
    """Hold every target of the spec against what the draft states of the cells that it is about."""
    for target in draft._released.spec.targets:
        table = draft[target.table]
        frame = table.to_pandas(level=target.level if target.level in table.levels else table.levels or None)
        prefix = "" if target.measure is None else f"{target.measure}_"
        about = ", ".join(filter(None, (target.table, target.measure, target.level)))
        if target.margin is not None and target.at is not None:  # a mean or rate of so many
            frame = frame[frame["count"] >= float(target.at)]
        column = f"{prefix}margin" if target.largest is not None else f"{prefix}quality"
        stated = list(frame[column].dropna()) if column in frame else []
        if not stated:
            yield Judged(about, target.words, "nothing", None)
        elif target.largest is not None:
            margins = [float(text) for text in stated]
            within = sum(margin <= float(target.largest) for margin in margins)
            summary = f"widest {in_figures(max(margins))}; {within:,} of {len(margins):,} cells within"
            yield Judged(about, target.words, summary, within == len(margins))
        else:
            flagged = stated.count("unreliable")
            met = flagged <= (target.unreliable or 0) * len(stated)
            yield Judged(about, target.words, f"{flagged:,} of {len(stated):,} cells unreliable", met)
