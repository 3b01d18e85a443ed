"""Tables of the mechanisms: parameters and traits from the registry, errors from benchmarks/results."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from math import exp, log
from statistics import mean
from textwrap import fill
from typing import Any

import numpy as np

from benchmarks.result_tables import HISTOGRAMS, RANGES, REPRODUCTION
from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.validations.release_spec.checks.table_checks import error_source
from tabularium.validations.release_spec.mechanism_parameters import parameters_of
from tests.docs.pages import DOCS

PAGES = DOCS / "reference" / "mechanisms"
#: What must be given to build a mechanism at all.
GIVEN: dict[str, dict[str, Any]] = {
    "structure_first": {"largest_count": 1000},
    "fpa": {"k": 8},
    "per_region": {"mechanism": "identity"},
}
#: Parameters with which a mechanism may measure sums over ranges, tried in this order.
FOR_RANGES: tuple[dict[str, Any], ...] = ({}, {"workload": "ranges"}, {"boost": True})
#: Kinds of data in the tables of ``benchmarks.bench_histograms``; it measures more.
DATA = {
    "areas": ("waitakere", "waitakere grid", "dwellings"),
    "rows": ("HEPTH", "PATENT", "ADULT_caploss"),
}
#: What ``benchmarks.bench_ranges`` calls a ratio -> what it is on the page.
RATIOS = {
    "random": "random ranges",
    "short": "ranges of 2 to 64 cells, `longest: 64`",
    "cells": "single cells",
    "cells, to 64": "single cells, `longest: 64`",
}
#: Means over rows, and tables -> the ratios that the page shows.
RANGES_OF = {
    "rows": tuple(RATIOS),
    **dict.fromkeys(("waitakere grid", "STROKE", "ADULT2D"), ("random", "short")),
}
ERRORS = {"exact": "exact", "risk": "estimated", "none": "measured"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    columns = list(head)
    lines = ["| " + " | ".join(line) + " |" for line in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]]).replace("|  |", "| |")


def parameters(name: str) -> str:
    """Return the parameters of a mechanism."""
    kind = type(build(name, **GIVEN[name])) if name in GIVEN else MECHANISMS[name]
    found = parameters_of(kind)
    if not found:
        return "None."
    needed = _missing(kind)
    rows = []
    for each in found:
        required = each.required or each.name == needed
        default = "required" if required else f"`{each.default}`" if each.default else ""
        rows.append((f"`{each.name}`", default, cell(each.meaning)))
    return table(("parameter", "default", "meaning"), rows)


def mechanisms(_: str) -> str:
    """Return what each mechanism does, and its traits."""
    rows = []
    for names, kind in kinds():
        rows.append((linked(names, ""), cell(first(kind)), _error_of_a_cell(kind), _suits_ranges(kind)))
    return table(("mechanism", "what it does", "error of a cell", "sums over ranges"), rows)


def mechanism_list(_: str) -> str:
    """Return the names of the mechanisms with links to their pages, by the definitions that they take."""
    found: dict[str, list[str]] = {}
    for names, kind in kinds():
        under = " and ".join(f"`{each}`" for each in kind.definitions)
        found.setdefault(under, []).append(linked(names, "../mechanisms/"))
    return "\n".join(
        fill(f"- {under}: {', '.join(links)}", 100, subsequent_indent="  ", break_long_words=False)
        for under, links in found.items()
    )


def cell_errors(kind: str) -> str:
    """Return the errors of a cell on public histograms of one kind, the least of all in each column bold."""
    rows = [row for row in HISTOGRAMS.read() if row["data"] in DATA[kind]]
    labels = list(dict.fromkeys(row["mechanism"] for row in rows))
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    error = {(row["mechanism"], row["data"], row["epsilon"]): float(row["mean |error|"]) for row in rows}

    def figures(label: str, data: str) -> str:
        found = [
            (error[label, data, epsilon], min(error[each, data, epsilon] for each in labels))
            for epsilon in epsilons
        ]
        return "/".join(f"**{number(value)}**" if value == best else number(value) for value, best in found)

    return table(
        ("ε = " + "/".join(f"{float(Fraction(each)):g}" for each in epsilons), *DATA[kind]),
        [(_code(label), *(figures(label, data) for data in DATA[kind])) for label in labels],
    )


def range_errors(_: str) -> str:
    """Return the errors of sums over ranges, over the best of the other mechanisms."""
    rows = [row for row in RANGES.read() if row["ratio"] in RANGES_OF.get(row["data"], ())]
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    value = {(row["data"], row["ratio"], row["epsilon"]): row["value"] for row in rows}
    found = dict.fromkeys((row["data"], row["ratio"]) for row in rows)
    return table(
        ("data", "error of", *(f"ε = {float(Fraction(each)):g}" for each in epsilons)),
        [(data, RATIOS[ratio], *(value[data, ratio, each] for each in epsilons)) for data, ratio in found],
    )


def reproduction(suite: str) -> str:
    """Return by what factor errors here differ from those that a paper prints."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in REPRODUCTION.read():
        if row["suite"] == suite and row["published"]:
            ratio = float(row["error"]) / float(row["published"])
            ratios.setdefault((row["experiment"], row["mechanism"]), []).append(ratio)
    return table(
        ("experiment", "mechanism", "here / in the paper", "from/to"),
        [
            (*place, _ratio(exp(mean(map(log, found)))), f"{_ratio(min(found))}/{_ratio(max(found))}")
            for place, found in ratios.items()
        ],
    )


def _ratio(value: float) -> str:
    return f"{value:.{2 if value < 1 else 1 if value < 10 else 0}f}"


def number(value: float) -> str:
    """Return a figure with three significant digits, without an exponent."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def kinds() -> Iterator[tuple[list[str], type[Mechanism]]]:
    """Yield the mechanisms, each with all its names."""
    names: dict[type[Mechanism], list[str]] = {}
    for name in MECHANISMS:
        names.setdefault(MECHANISMS[name], []).append(name)
    for kind, known in names.items():
        yield known, kind


def first(kind: type[Mechanism]) -> str:
    """Return the first sentence of a class."""
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def cell(text: str) -> str:
    """Make a docstring's words fit for a cell of a Markdown table: words as in YAML, fractions quoted."""
    plain = text.replace("``", "`").replace("|", "\\|")
    return re.sub(r'`(?:(\w+)=)?"([a-z_]+)"`', lambda m: f"`{m[1]}: {m[2]}`" if m[1] else f"`{m[2]}`", plain)


@lru_cache
def pages() -> dict[str, str]:
    """Return name of a mechanism -> name of the page with it in its title."""
    found = {}
    for path in sorted(PAGES.glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        found |= {name: path.name for name in re.findall(r"\w+", title) if name in MECHANISMS}
    return found


def linked(names: list[str], folder: str) -> str:
    """Return the names of a mechanism in code, the first with a link to its page."""
    rest = "".join(f", `{name}`" for name in names[1:])
    return f"[`{names[0]}`]({folder}{pages()[names[0]]}){rest}"


def _code(label: str) -> str:
    name, _, rest = label.partition(" ")
    return f"`{name}` {rest}".strip()


def _missing(kind: type[Mechanism]) -> str | None:
    """Return the parameter that a mechanism asks for when it is given none."""
    try:
        kind()
    except MechanismError as error:
        return error.where
    except TypeError:  # one without a default
        return None
    return None


def _error_of_a_cell(kind: type[Mechanism]) -> str:
    """Return how the error of a cell is known, as in a release."""
    if not getattr(kind, "attributed", True):
        return "no cells"
    given = GIVEN.get(kind.name, {})
    return ERRORS[error_source(kind.name, given, kind.definitions[0], {"": (64,)})]


def _suits_ranges(kind: type[Mechanism]) -> str:
    """Return with what parameters a sum over half a row has less than two thirds of the variance of noisy cells."""
    for more in FOR_RANGES:
        try:
            mechanism = build(kind.name, **GIVEN.get(kind.name, {}), **more)
        except MechanismError:
            continue
        cells = build("identity" if "pure" in kind.definitions else "gaussian")
        if _variance_of_half(mechanism) < _variance_of_half(cells) * 2 / 3:
            return ", ".join(f"`{key}: {str(value).lower()}`" for key, value in more.items()) or "yes"
    return ""


def _variance_of_half(mechanism: Mechanism) -> float:
    """Return the variance of the sum of 512 of 1 024 cells, infinite where it is not known."""
    counts = np.repeat(np.arange(32) * 7 % 40, 32)
    chosen = np.zeros(counts.size, dtype=np.bool_)
    chosen[100:612] = True
    definition = mechanism.definitions[0]
    budget = Fraction(1, 10) if definition == "pure" else Fraction(1, 200)
    measured = mechanism.measure(counts, SeededChannel(budget, seed=1, definition=definition))
    sums = mechanism.linear_measurements(measured)
    return float("inf") if sums is None else float(sums.estimate(chosen)[1])


MAKERS = {
    "parameters": parameters,
    "mechanisms": mechanisms,
    "mechanism-list": mechanism_list,
    "cell-errors": cell_errors,
    "range-errors": range_errors,
    "reproduction": reproduction,
}
