"""``tabularium query``: ask a published release; answers come with their margins."""

from __future__ import annotations

import math
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from rich.markup import escape

from tabularium.flows.cli.terminal import AsJson, err, one_line_errors, out, print_json, say, table
from tabularium.mechanisms.errors import InputError

if TYPE_CHECKING:
    from tabularium.mechanisms.queries import Answer, Row
    from tabularium.tasks.query.query_release import OpenRelease, ReleasedTable

_SHOWN_VALUES = 12
_EXAMPLES = """\
Example:  tabularium query releases/census/2026/ID "count by sex where 20 <= age < 30"

Example:  tabularium query releases/census/2026/ID "average(income) where region = N" --level 0.95

Example:  tabularium query releases/census/2026/ID "median(income) from workers where age < 30 or sex = F"

Example:  tabularium query releases/census/2026/ID  (says what can be asked)

How queries are written, and how errors are known: docs/reference/query-language.md."""


def query(
    folder: Annotated[Path, typer.Argument(help="Folder of a published release.", metavar="FOLDER")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help='Such as "count by sex where age < 30"; without it: what can be asked.', metavar="QUERY"
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option("--level", "--confidence", help="Of intervals; default: the release's."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            "--source",
            help="measurements or tables; default: the more accurate.",
        ),
    ] = None,
    table_name: Annotated[str | None, typer.Option("--table", help="Only this table of the release.")] = None,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Also show what could be promised before drawing.")
    ] = False,
    unverified: Annotated[bool, typer.Option("--unverified", help="Do not check the files first.")] = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
) -> None:
    """Compute counts, sums, averages, medians and more from a release, with errors. Costs no budget."""
    text = " ".join(words) if words else None  # without quotes it comes in pieces
    with one_line_errors():
        if from_ not in {None, "measurements", "tables"}:
            raise InputError(
                "there is no such source", where=f"--from {from_}", hint="write measurements or tables"
            )
        if level is not None and not 0 < level < 1:
            raise InputError("the level is not between 0 and 1", where="--level", hint="0.9 means 90 percent")
        if text is not None:
            from tabularium.mechanisms.queries import parse

            parse(text)  # before the release is read: a mistake in it is reported at once
        import tabularium
        from tabularium.tasks.publish.release_folder import well_formed
        from tabularium.tasks.query.query_release import asked_release

        opened = tabularium.open(folder, verify=not unverified)
        if opened.is_rehearsal:
            err.print(f"[yellow]![/yellow] {escape(opened.beginning(0).splitlines()[0])}", highlight=False)
        with well_formed(opened.folder):
            release = asked_release(opened._released, table=table_name, verified=not unverified)
            if as_csv and (as_json or text is None):
                raise InputError(
                    "there are no rows for it", where="--csv", hint="give a query, without --json"
                )
            if text is None:
                _show_tables(release, as_json=as_json)
            else:
                source = cast(Literal["measurements", "tables"] | None, from_)
                asked = text, level or release.level, source
                _show_answer(release, *asked, bounds=bounds, as_json=as_json, as_csv=as_csv)


def _show_answer(
    release: OpenRelease,
    text: str,
    level: float,
    source: Literal["measurements", "tables"] | None,
    *,
    bounds: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    from tabularium._answer import Answer as Answered
    from tabularium._answer import advice
    from tabularium.mechanisms.queries import ask, describe
    from tabularium.tasks.publish.frames import all_in_digits

    answer = ask(text, release.asked, level=level, source=source, histograms=release.histograms)
    promised = _bounds(release, answer) if bounds else {}
    if as_csv:
        rows = Answered(text, answer, _counted(release, answer.table)).to_pandas()
        sys.stdout.write(rows.to_csv(index=False))
        return
    if as_json:
        print_json(
            {
                "query": text,
                "release": _about(release),
                "table": answer.table,
                "method": answer.method,
                "explanation": describe(answer),
                "level": answer.level,
                "measure": None if answer.of is None else answer.of.name,
                "cells": answer.cells,
                "binned": answer.binned,
                "counted": _counted(release, answer.table),
                "invariants_used": list(answer.invariants),
                "invariants_not_used": _not_used(release, answer),
                "invariants_in_conflict": list(_conflicts(release)),
                "rows": all_in_digits([_row(row, answer) for row in answer.rows]),
                **all_in_digits(promised),
            }
        )
        return
    percent = _percent(answer.level)
    numbers = (">answer", ">std. error", f">{percent} from", ">to", ">published tables")
    shown = table(*(name.replace("[", "\\[") for name in answer.headings), *numbers)
    for row in answer.rows:
        names = [code if code == label else f"{label} ({code})" for code, label in row.group]
        shown.add_row(*map(escape, names), *_numbers(row, 0.01 if answer.estimator else None))
    out.print(shown)
    say(f"table {answer.table}, {percent} intervals. {describe(answer)}")
    if (note := advice(answer)) and not _is_rehearsal(release):
        say(note)
    if _is_bounded(release):
        say(f"Totals count {_counted(release, answer.table)}: no margin covers what is left out.")
    elif answer.table in release.of_a_universe:
        say(f"It counts {_counted(release, answer.table)}.")
    say(_checked(release))
    if known := ", ".join(_not_used(release, answer)):
        say(f"Public invariants of the release ({known}) are not made use of here.")
    for line in _conflicts(release).values():
        say(line)
    if promised:
        from tabularium.tasks.query.usefulness import in_words

        for line in in_words(promised["usefulness"], promised["posterior"]):
            say(line)


def _not_used(release: OpenRelease, answer: Answer) -> list[str]:
    """Name the public numbers that tables show exactly, and that had nothing to say of the answer."""
    names = [invariant.name for invariant in release.certificate.invariants]
    return [name for name in names if name not in answer.invariants]


def _counted(release: OpenRelease, table_name: str) -> str:
    """Say what records a table's numbers cover: bounding may have left some out."""
    return release.certificate.tables[table_name].counted


def _is_bounded(release: OpenRelease) -> bool:
    return release.certificate.privacy.unit.column is not None


def _conflicts(release: OpenRelease) -> dict[str, str]:
    """Say which invariants the measurements contradict: they were published all the same."""
    return {
        invariant.name: f"WARNING: the measurements contradict invariant {invariant.name} beyond chance, "
        f"at {invariant.beyond_chance:,} of {invariant.compared:,} numbers; tables show it all the same, and "
        "their margins do not cover what is wrong with it."
        for invariant in release.certificate.invariants
        if invariant.beyond_chance
    }


def _numbers(row: Row, width: float | None) -> list[str]:
    if row.low is not None and row.high is not None:
        width = row.high - row.low
    texts = [_written(number, width) for number in (row.value, row.low, row.high, row.published)]
    error = row.standard_error  # where numbers are known only up to bins it is far below the interval
    return [texts[0], _written(error, None if error is None else 2 * error), *texts[1:]]


def _written(number: float | None, width: float | None) -> str:
    """Return a number with the digits that its interval bears out."""
    if number is None:
        return "–"
    digits = 1 if not width else max(0, 1 - math.floor(math.log10(width / 2)))
    return f"{number:,.{min(digits, 9)}f}" if not float(number).is_integer() else f"{number:,.0f}"


def _row(row: Row, answer: Answer) -> dict[str, Any]:
    groups = zip(answer.headings, row.group, strict=True)
    return vars(row) | {"group": {name: {"code": code, "label": label} for name, (code, label) in groups}}


def _about(release: OpenRelease) -> dict[str, Any]:
    certificate = release.certificate
    named = {"id": certificate.release_id, "product": certificate.product, "period": certificate.period}
    how = {"certificate": release.digest, "verified": release.verified}
    return named | how | {"rehearsal": _is_rehearsal(release)}


def _is_rehearsal(release: OpenRelease) -> bool:
    from tabularium.validations.certificate import made_up_in

    return made_up_in(release.certificate) is not None


def _checked(release: OpenRelease) -> str:
    if _is_rehearsal(release):
        return "REHEARSAL of made-up records: no number here is about anybody, and none is to be quoted."
    if not release.verified:
        return "UNVERIFIED: the files were not compared with the certificate."
    return f"Every file is as the certificate says (SHA-256 {release.digest[:16]}…)."


def _bounds(release: OpenRelease, answer: Answer) -> dict[str, dict[str, Any]]:
    from tabularium.tasks.query.usefulness import promised_error, promised_privacy

    if answer.measure != "count":
        none = {"none": "what is promised beforehand is about counts"}
        return {"usefulness": none, "posterior": promised_privacy(release.certificate)}
    return {
        "usefulness": promised_error(release.certificate, answer),
        "posterior": promised_privacy(release.certificate),
    }


def _show_tables(release: OpenRelease, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "release": _about(release),
                "tables": [
                    {**_described(entry), "counted": _counted(release, entry.name)}
                    for entry in release.tables
                ],
                "invariants_in_conflict": list(_conflicts(release)),
            }
        )
        return
    for entry in release.tables:
        shown = table("attribute", "values", title=f"table {escape(entry.name)}")
        for about in _described(entry)["attributes"]:
            values = [code if code == label else f"{code} {label}" for code, label in about["values"]]
            more = f", … ({about['number']} in all)" if about["number"] > len(values) else ""
            levels = f"levels {', '.join(about['levels'])}: " if about["levels"] else ""
            shown.add_row(escape(about["name"]), escape(f"{levels}{', '.join(values)}{more}"))
        for array in entry.arrays:
            shown.add_row(
                escape(array.measure), escape(": ".join(filter(None, (array.asks.offers, array.asks.about))))
            )
        out.print(shown)
        if _is_bounded(release) or entry.name in release.of_a_universe:
            say(f"Totals of {entry.name} count {_counted(release, entry.name)}.")
    for sizes in release.histograms:
        asked = ", ".join(f"{name}({sizes.name})" for name in ("support", "entropy"))
        say(f"Histogram of {sizes.column}: {asked}, distance({sizes.name}, NUMBER).")
    for line in _conflicts(release).values():
        say(line)
    say(_checked(release))
    say('Ask for instance "count" or "count by NAME where NAME = VALUE".')
    say("The language: docs/reference/query-language.md")


def _described(entry: ReleasedTable) -> dict[str, Any]:
    attributes = [
        {
            "name": attribute.name,
            "levels": list(attribute.levels),
            "number": len(attribute.codes),
            "values": list(islice(zip(attribute.codes, attribute.labels, strict=True), _SHOWN_VALUES)),
        }
        for attribute in entry.axes.attributes
    ]
    measures = [
        {"name": array.measure, "answers": list(array.asks.answers), "about": array.asks.about}
        for array in entry.arrays
    ]
    return {"name": entry.name, "attributes": attributes, "measures": measures}


def _percent(level: float) -> str:
    return f"{100 * level:g} %"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="query", epilog=_EXAMPLES)(query)
