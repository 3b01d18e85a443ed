"""A plan: a spec with budget, shares and levels; its spec file, its description and its picture.

The spec file keeps its comments and its order. Only the values that change are cut out and replaced, where
the YAML parser found them; a missing key is put before one that is there. The result is read back before it
is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.planned_model import array_shares
from tabularium.tasks.plan.rehearsal import Proposal
from tabularium.tasks.plan.targets import Bounds, in_figures, in_words
from tabularium.validations.redaction import bare_errors, os_errors_as
from tabularium.validations.release_spec.load import Loaded, examine
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.release_spec.targets import Tuning

MET = 1.01
"""Predicted over wanted margin up to which a simulation says that a target is met: it knows no better."""


@dataclass(frozen=True)
class PlannedMargin:
    """The planned margin of one level of a table or of the array of a measure.

    Attributes
    ----------
    table
        Name of the table or of the array.
    target
        In words; empty where none is about it.
    wanted
        The largest margin that its targets allow; None without one.
    margin
        The predicted one: of the worst cell where errors are linear, on average where it was simulated.
    part
        Of the tables' budget that measures this level; 0 where it is added up from others.
    drives
        Part of the budget that would not be needed but for these targets.
    """

    table: str
    level: str
    target: str
    wanted: float | None
    margin: float
    part: Fraction
    drives: float

    @property
    def measure(self) -> str | None:
        """The measure; None for counts."""
        return self.table.partition("-")[2] or None

    @property
    def where(self) -> str:
        """Table and level."""
        return in_words(self.table, self.level)


@dataclass(frozen=True, eq=False)
class Plan:
    """A spec with planned budget, shares and levels.

    Attributes
    ----------
    margins
        Table by table and level by level.
    trade_off
        Budgets, and the margins that the same shares give with them, in the order of ``margins``.
    gap
        Part of the budget that other shares could save at most; None where that is not known.
    tuning
        The release on whose counts it was chosen.
    simulated
        Whether margins of counts are those of simulated releases.
    kept
        Measures whose losses were not looked for, as ``table: measure``.
    closer
        Tables that will agree with others on more than the margins know of, which makes them narrower.
    bounds
        The bounds of measures like the release's.
    bounded
        Whether the spec has been given these.
    proposals
        What other mechanisms would make of the same counts.
    rest
        Tables without a target, where others have one.
    given
        Whether the budget was: these share what targets leave of it, and else keep their shares.
    """

    loaded: Loaded
    margins: tuple[PlannedMargin, ...]
    trade_off: tuple[tuple[Fraction, tuple[float, ...]], ...]
    gap: float | None
    tuning: Tuning | None
    simulated: bool
    kept: tuple[str, ...]
    closer: tuple[str, ...]
    bounds: tuple[Bounds, ...]
    bounded: bool
    proposals: tuple[Proposal, ...]
    rest: tuple[str, ...] = ()
    given: bool = False

    @property
    def budget(self) -> Fraction:
        """The budget of the release, for one unit."""
        return self.loaded.spec.privacy.budget

    def split(self, table: str) -> bool:
        """Whether the shares of a table's counts and measures were planned."""
        arrays = array_shares(next(entry for entry in self.loaded.spec.tables if entry.name == table))
        return len(arrays) > 1 + len([name for name in arrays if in_words(name, "") in self.kept])

    @property
    def missed(self) -> list[PlannedMargin]:
        """Levels whose margin is wider than wanted; none where the budget was free."""
        return [margin for margin in self.margins if margin.wanted and margin.margin > margin.wanted * MET]


_Edit = tuple[int, int, str]
"""Where a piece of the text begins and ends, and what it becomes."""


def planned_text(plan: Plan) -> str:
    """Return the text of the plan's spec file with the planned values."""
    text = plan.loaded.path.read_text(encoding="utf-8-sig")
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    root = _mapping(document)
    spec = plan.loaded.spec
    budget = _mapping(root["privacy"][1])["budget"][1]
    edits = [(budget.start_mark.index, budget.end_mark.index, _quoted(spec.privacy.budget))]
    for node, table in zip(root["tables"][1].value, spec.tables, strict=True):
        levels = (
            "{" + ", ".join(f"{_key(name)}: {_quoted(share)}" for name, share in table.levels.items()) + "}"
        )
        wanted = {"share": _quoted(table.share)} | ({"levels": levels} if table.levels else {})
        edits += _set(text, node, wanted, before="dimensions")
        edits += _measure_edits(text, node, plan, table)
    if plan.tuning is not None:
        tuning = f'{{release: "{plan.tuning.release}", certificate: "{plan.tuning.certificate}"}}'
        edits += _set(text, document, {"tuning": tuning}, before="tables")
    elif "tuning" in root:
        edits += _set(text, document, {"tuning": ""}, before="tables")
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _measure_edits(text: str, node: Any, plan: Plan, table: Table) -> list[_Edit]:
    """Return the edits of a table's measures: their shares, where those were planned, and their bounds."""
    edits: list[_Edit] = []
    new = {(bound.table, bound.measure) for bound in plan.bounds if bound.new}
    for name, measure in table.measures.items():
        written = _mapping(node)["measures"][1]
        inside = _mapping(written)[name][1]
        wanted = {}
        if plan.split(table.name):
            wanted["share"] = _quoted(measure.share or Fraction(0))
        if plan.bounded and (table.name, name) in new and isinstance(measure, OfColumn):
            wanted |= {"from": str(measure.start), "to": str(measure.end), "step": _quoted(measure.step)}
        edits += _set(text, inside, wanted, before=next(iter(_mapping(inside))))
    return edits


def check_written(path: Path, plan: Plan) -> None:
    """Read a written file back, and check that it has the planned values.

    Raises
    ------
    InputError
        It does not; a file of the house's own making would be at fault.
    """
    read, wanted = examine(path).loaded, plan.loaded.spec
    if read is None or (read.spec.privacy, read.spec.tables, read.spec.tuning) != (
        wanted.privacy,
        wanted.tables,
        plan.tuning,
    ):
        raise InputError(
            "the plan cannot be put into this file",
            where=plan.loaded.path.name,
            hint="write budget, shares and levels into it by hand, as --json prints them",
        )


def _mapping(node: Any) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a mapping with the nodes of key and value."""
    return {key.value: (key, value) for key, value in node.value}


def _set(text: str, mapping: Any, wanted: dict[str, str], *, before: str) -> list[_Edit]:
    """Return the edits that give keys of a mapping these values; an empty one removes its key's line."""
    keys, edits, missing = _mapping(mapping), [], []
    for name, new in wanted.items():
        if name not in keys:
            missing.append(f"{name}: {new}")
            continue
        key, value = keys[name]
        if not new:
            end = text.find("\n", _end(text, value)) + 1 or len(text)
            edits.append((key.start_mark.index, end, ""))
        elif isinstance(value, yaml.MappingNode) and not value.flow_style:
            edits.append((key.end_mark.index, _end(text, value), f": {new}"))
        else:
            edits.append((value.start_mark.index, value.end_mark.index, new))
    if missing:
        mark = keys[before][0].start_mark
        joint = ", " if mapping.flow_style else "\n" + " " * mark.column
        edits.append((mark.index, mark.index, "".join(line + joint for line in missing)))
    return edits


def _end(text: str, node: Any) -> int:
    """Return the end of a value: of a block, after its last line's text, before comments and blank lines."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _quoted(number: Fraction) -> str:
    """Return a fraction as a spec writes it: a decimal where that is short."""
    decimal = f"{float(number):.6g}"
    plain = Fraction(decimal) == number and "e" not in decimal
    return f'"{decimal}"' if plain else f'"{number}"'


def _key(name: str) -> str:
    """Return a level's name as a key, in quotes unless every reader of YAML sees that text in it."""
    plain = name.isalpha() and name.isascii() and yaml.safe_load(name) == name and len(name) > 1
    return name if plain else f'"{name}"'


# The description, as plain values and as sentences.


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values; exact fractions as text."""
    spec = plan.loaded.spec
    return {
        "product": spec.product,
        "budget": str(plan.budget),
        "definition": spec.privacy.definition,
        "confidence": str(spec.publication.confidence),
        "could_be_smaller_by_at_most": plan.gap,
        "judged_on": None if plan.tuning is None else plan.tuning.model_dump(),
        "margins_are": "simulated" if plan.simulated else "linear",
        "tables": [
            {
                "name": table.name,
                "share": str(table.share),
                "levels": {name: str(share) for name, share in table.levels.items()},
                "measures": {name: str(measure.share) for name, measure in table.measures.items()},
            }
            for table in spec.tables
        ],
        "not_planned": list(plan.kept),
        "without_targets": list(plan.rest),
        "planned_without_prior": _with_prior(plan),
        "bounds": [
            {
                "table": bound.table,
                "measure": bound.measure,
                "from": bound.start,
                "to": bound.end,
                "step": str(bound.step),
                "proposed": bound.new,
                "taken_over": bound.new and plan.bounded,
                "why": bound.why,
            }
            for bound in plan.bounds
        ],
        "margins": [
            {
                "table": margin.table.partition("-")[0],
                "measure": margin.measure,
                "level": margin.level,
                "target": margin.target,
                "wanted": margin.wanted,
                "margin": round(margin.margin, 3),
                "part_of_budget": str(margin.part),
                "drives": round(margin.drives, 4),
            }
            for margin in plan.margins
        ],
        "trade_off": [
            {"budget": str(budget), "margins": [round(margin, 3) for margin in margins]}
            for budget, margins in plan.trade_off
        ],
        "mechanisms": [
            {
                "table": proposal.table,
                "level": proposal.level,
                "mechanism": proposal.mechanism,
                "error_of_plain_noise": round(proposal.error, 3),
                "better": proposal.better,
            }
            for proposal in plan.proposals
        ],
    }


def notes_on(plan: Plan) -> list[str]:
    """Return notes on the numbers of a plan."""
    spec = plan.loaded.spec
    confidence = f"{float(spec.publication.confidence):.4g}"
    of = f"± is the margin at confidence {confidence}"
    if plan.simulated and plan.tuning is not None:
        notes = [
            f"{of} of releases simulated on the counts of {plan.tuning.release}, over the cells that hold "
            "something; levels of few cells have that of the linear estimate."
        ]
    else:
        notes = [
            f"{of} of the worst cell after consistency; small counts have less, which --like RELEASE shows."
        ]
    first = max(plan.margins, key=lambda line: line.drives)
    if first.target:
        notes.append(f"Costs most: {first.where} ({first.target}), {first.drives:.0%} of the budget.")
    if plan.gap is not None:
        notes.append(f"Other shares could save at most {100 * plan.gap + 0.05:.1f} % of this budget.")
    if plan.simulated and any(margin.measure for margin in plan.margins):
        notes.append("Margins of measures are those of the linear estimate.")
    if _with_prior(plan):
        notes.append(
            f"Planned without their prior: {', '.join(_with_prior(plan))}. Drawn towards it margins are "
            "mostly narrower; by how much, only the new noisy counts will show."
        )
    if plan.rest:
        part = sum(float(table.share) for table in spec.tables if table.name in plan.rest)
        words = "with what the targets leave" if plan.given else "with the share that is written"
        notes.append(
            f"Without a target, {words}: {', '.join(plan.rest)} ({part:.1%} of what tables have). "
            "Margins follow from that."
        )
    kept = [level for level in plan.kept if level.partition(":")[0] not in plan.rest]
    if kept:
        notes.append(
            "Not aimed for, and kept in the spec's proportion to the count, or to the first measure with "
            f"a target: {', '.join(kept)}."
        )
    notes += [
        f"{'Taken over' if plan.bounded else 'Proposed'} for {bound.table}: {bound.measure}: from "
        f"{bound.start:,} to {bound.end:,} by {float(bound.step):g}; {bound.why}."
        if bound.new
        else f"No bounds proposed for {bound.table}: {bound.measure}: {bound.why}."
        for bound in plan.bounds
    ]
    if plan.closer:
        names = ", ".join(in_words(names, "") for names in plan.closer)
        notes.append(
            f"Narrower than shown: {names}, which agree with "
            "each other in a way that is not worked out (such as nested codings of uneven groups), or have "
            "cells that are exactly zero."
        )
    notes += [
        f"Wider than wanted: {margin.where}, ±{in_figures(margin.margin)} and not "
        f"±{in_figures(margin.wanted or 0)}."
        for margin in plan.missed
    ]
    notes += [
        f"{proposal.where}: {proposal.mechanism} has {proposal.error:.0%} of the error of plain noise "
        "here, and margins of another kind: docs/how-to/choose-a-mechanism.md."
        for proposal in plan.proposals
        if proposal.better
    ]
    return notes


def _with_prior(plan: Plan) -> list[str]:
    """Return the tables that are to be drawn towards an earlier release, or the level above."""
    return [table.name for table in plan.loaded.spec.tables if table.prior is not None]


# The picture: budget against margin of error, a panel for each table and a line for each level.


FORMATS = (".svg", ".png", ".pdf")
# Okabe and Ito's colours, which colour-blind readers can distinguish; the marker repeats the distinction.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c")
_MARKERS = "osD^vPX"
_STYLE = {
    "svg.hashsalt": "plan",
    "svg.fonttype": "none",
    "font.size": 9,
    "text.parse_math": False,  # names of tables and levels are no formulas
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
}
_WIDE = 4  # panels in a row
_TICKS = (1.0, 2.0, 5.0)  # in every decade


@bare_errors
def draw_trade_off(plan: Plan, file: Path) -> None:
    """Draw a plan.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    tables = list(dict.fromkeys(margin.table for margin in plan.margins))
    down = -(-len(tables) // _WIDE)
    across = -(-len(tables) // down)
    counts = all(margin.measure is None for margin in plan.margins)  # others have units of their own
    units = {
        array.name: f", {array.measured.unit}"
        for array in plan.loaded.spec.arrays
        if array.measured is not None and array.measured.unit
    }
    symbol = plan.loaded.spec.privacy.symbol
    budgets = np.array([float(budget) for budget, _ in plan.trade_off])
    courses = np.array([margins for _, margins in plan.trade_off])
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(max(4.6, 3.1 * across), 0.5 + 2.7 * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=counts).ravel()
        for panel, table in zip(panels, tables, strict=False):
            lines = [index for index, margin in enumerate(plan.margins) if margin.table == table]
            panel.axvline(float(plan.budget), color="#5c5c5c", linewidth=0.8, linestyle="--")
            for number, index in enumerate(lines):
                margin, look = plan.margins[index], number % len(_COLOURS)
                style = {"color": _COLOURS[look], "marker": _MARKERS[look]}
                panel.plot(
                    budgets,
                    courses[:, index],
                    label=margin.level or "cells",
                    markersize=3.5,
                    linewidth=1.3,
                    **style,
                )
                if margin.wanted is not None:
                    panel.plot(
                        float(plan.budget),
                        margin.wanted,
                        markersize=10,
                        markerfacecolor="none",
                        **style,
                        linestyle="",
                    )
            panel.set(title=in_words(table, "") + units.get(table, ""), xscale="log", yscale="log")
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_figures(value)))
            panel.yaxis.set_major_locator(LogLocator(subs=_TICKS))
            panel.set_xticks(budgets[::2])
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_minor_formatter(NullFormatter())
            panel.minorticks_off()
            panel.legend(frameon=False, fontsize=8)
        for panel in panels[len(tables) - across : len(tables)]:
            panel.tick_params(labelbottom=True)  # the lowest of its column
        for panel in panels[len(tables) :]:
            panel.set_visible(False)
        figure.supxlabel(
            f"budget, {symbol}; dashed: as planned, with what is wanted as open markers", fontsize=9
        )
        figure.supylabel(
            f"margin of error ({float(plan.loaded.spec.publication.confidence):.0%})", fontsize=9
        )
        with os_errors_as(InputError, "cannot be written ({reason})", where=file, hint="name another file"):
            figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
