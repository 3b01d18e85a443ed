"""``tabularium compare``: mechanisms beside each other on data that everyone may see."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tabularium.lab.comparison.data_sets import public
from tabularium.lab.comparison.error_measures import CATALOGUE
from tabularium.lab.comparison.suites import Contender, Experiment, Suite, suite_called
from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.errors import InputError, MechanismError

if TYPE_CHECKING:
    import pandas as pd

_MOST_RUNS = 100_000


def suite_of(
    name: str | None,
    mechanisms: list[str],
    data: list[str],
    epsilons: list[str],
    measures: list[str],
    because: str | None,
) -> Suite:
    """Return the named suite, or one made of what the user chose.

    Raises
    ------
    InputError
        A choice that is not one, or data that may be confidential.
    """
    if name is not None:
        options = {"--mechanism": mechanisms, "--data": data, "--epsilon": epsilons, "--measure": measures}
        for option, given in options.items():
            if given:
                raise InputError(
                    "a suite says itself what is run", where=option, hint="leave out this option, or --suite"
                )
        return suite_called(name)
    for measure in measures:
        if measure not in CATALOGUE:
            raise InputError(
                "there is no measure of that name",
                where=f"--measure {measure}",
                hint=f"known are {', '.join(CATALOGUE)}",
            )
    (general,) = suite_called("general").experiments
    experiment = Experiment(
        general.name,
        general.says,
        tuple(public(text, because) for text in data) or general.data,
        tuple(contender(text) for text in mechanisms) or general.contenders,
        tuple(_epsilon(text) for text in epsilons) or general.epsilons,
        tuple(measures) or general.measures,
    )
    names = [one.name for one in experiment.data]
    if len(set(names)) < len(names):
        raise InputError("two data sets have the same name", where="--data", hint="rename one of the files")
    return Suite("comparison", "Mechanisms beside each other", "What was asked for.", (experiment,))


def contender(text: str) -> Contender:
    """Return the mechanism that ``name`` or ``name:parameter=value,parameter=value`` means."""
    name, _, given = text.partition(":")
    parameters: dict[str, Any] = {}
    for pair in filter(None, given.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(
                "a parameter is written name=value",
                where=f"--mechanism {text}",
                hint="noise_first:penalty=paper",
            )
        parameters[key.strip()] = yaml.safe_load(value)
    try:
        build(name.strip(), **parameters)
    except MechanismError as error:
        raise InputError(str(error), where=f"--mechanism {text}") from None
    return Contender(text, name.strip(), tuple(parameters.items()))


def _epsilon(text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise InputError("ε is a positive number", where=f"--epsilon {text}", hint="write 0.1 or 1/10")
    return value


def compare(
    suite: Suite,
    folder: Path,
    *,
    runs: int | None,
    seed: int,
    processes: int | None,
    done: Callable[[int, int], None],
) -> pd.DataFrame:
    """Run ``suite`` and write results.csv and index.html to a new folder; return the results.

    Raises
    ------
    InputError
        The folder holds something already, or a number is out of range.
    """
    if runs is not None and not 1 <= runs <= _MOST_RUNS:
        raise InputError("out of range", where="--runs", hint=f"1 to {_MOST_RUNS:,}")
    if processes is not None and processes < 1:
        raise InputError("out of range", where="--processes", hint="at least 1")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("this is in use", where=f"--out {folder}", hint="name a new folder")
    unknown = {one.name for each in suite.experiments for data in each.data for one in each.taking_part(data)}
    if missing := sorted(unknown - set(MECHANISMS)):
        raise InputError(f"not built yet: {', '.join(missing)}", where=f"--suite {suite.name}")
    from tabularium.lab.comparison.run_suite import run_suite

    results = run_suite(suite, runs=runs, seed=seed, processes=processes or os.cpu_count() or 1, done=done)
    _write(suite, results, folder, seed)
    return results


def _write(suite: Suite, results: pd.DataFrame, folder: Path, seed: int) -> None:
    from tabularium.lab.comparison.html_page import page
    from tabularium.lab.comparison.plots import drawn

    text = page(suite, results, drawn(suite, results), seed=seed, version=version("tabularium-dp"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("results.csv", results.to_csv(index=False)), ("index.html", text)):
        aside = folder / f".{name}.part"
        aside.write_text(content, encoding="utf-8")
        aside.replace(folder / name)


def summary(results: pd.DataFrame) -> str:
    """Return a short table: the first measure of the first experiment that is one number per mechanism."""
    plain = results[(results["along"] == "") & (results["refused"] == "")]
    if plain.empty:
        return "No mechanism gave a single figure; see the page."
    first = plain[
        (plain["experiment"] == plain["experiment"].iloc[0]) & (plain["measure"] == plain["measure"].iloc[0])
    ]
    lines = [f"{first['measure'].iloc[0]}, {first['experiment'].iloc[0]}"]
    for (data, epsilon), part in first.groupby(["data", "epsilon"], sort=False):
        ranked = part.sort_values("error").head(3)
        best = ", ".join(f"{row.mechanism} {row.error:.4g}" for row in ranked.itertuples())
        lines.append(f"  {data}, ε = {float(Fraction(epsilon)):g}: {best}")
    return "\n".join(lines)
