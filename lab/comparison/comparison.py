"""``tabularium compare``: mechanisms compared on data that everyone may see."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from tabularium.lab.comparison.data_sets import DataSet, public
from tabularium.lab.comparison.error_measures import CATALOGUE, comparable
from tabularium.lab.comparison.suites import Contender, Experiment, Suite, suite_called
from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import InputError, MechanismError

if TYPE_CHECKING:
    import pandas as pd


# Running a comparison: many seeded runs in parallel processes, gathered into one frame.


_CHUNKS = 4  # a job is at most a quarter of the runs: enough to keep all processes busy to the end
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """Some runs of one mechanism on one data set at one ε."""

    data: DataSet
    contender: Contender
    epsilon: Fraction
    seeds: tuple[int, ...]
    measures: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of a job: per run its seconds and errors, or why the mechanism would not run."""

    job: Job
    seconds: tuple[float, ...] = ()
    errors: tuple[dict[str, dict[float | str, float]], ...] = ()
    refused: str = ""


Key = tuple[DataSet, Contender, Fraction]


def planned(suite: Suite, runs: int | None, seed: int) -> list[Job]:
    """Return the jobs of a suite. What several experiments ask for is run once, with all their measures."""
    wanted: dict[Key, tuple[set[str], int]] = {}
    for experiment in suite.experiments:
        for data in experiment.data:
            for contender in experiment.taking_part(data):
                for epsilon in experiment.epsilons:
                    measures, most = wanted.setdefault((data, contender, epsilon), (set(), 0))
                    measures.update(experiment.measures)
                    wanted[data, contender, epsilon] = (measures, max(most, runs or experiment.runs))
    jobs = []
    for (data, contender, epsilon), (measures, count) in wanted.items():
        size = -(-count // _CHUNKS)
        for first in range(0, count, size):
            seeds = tuple(seed + run for run in range(first, min(first + size, count)))
            jobs.append(Job(data, contender, epsilon, seeds, tuple(sorted(measures))))
    return jobs


def run_job(job: Job) -> Outcome:
    """Do the runs of a job, in this process."""
    counts = job.data.counts()
    truth = counts.astype(np.float64)
    measures = [CATALOGUE[name] for name in job.measures]
    seconds, errors = [], []
    try:
        mechanism = build(job.contender.name, **dict(job.contender.parameters))
        _warmed(job.contender, counts.ndim)
        for seed in job.seeds:
            start = time.process_time()
            release = mechanism.release(counts, SeededChannel(job.epsilon, seed=seed))
            seconds.append(time.process_time() - start)
            forms = {measure.name: comparable(release.values, truth, measure) for measure in measures}
            errors.append(
                {
                    measure.name: measure.points(truth, values)
                    for measure in measures
                    if (values := forms[measure.name]) is not None
                }
            )
    except MechanismError as error:
        return Outcome(job, refused=str(error))
    except Exception as error:  # a fault of one mechanism must not cost the results of all others
        return Outcome(job, refused=f"it failed with {type(error).__name__}: {error}")
    return Outcome(job, tuple(seconds), tuple(errors))


@lru_cache(maxsize=64)
def _warmed(contender: Contender, axes: int) -> None:
    """Load the mechanism's compiled kernels, so that no run is charged with it."""
    shape = (max(2, 64 >> (axes - 1)), *(2,) * (axes - 1))
    small = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    with suppress(MechanismError):  # parameters may not fit so small a table; the first run then loads it
        build(contender.name, **dict(contender.parameters)).release(small, SeededChannel(Fraction(1), seed=0))


def run_suite(
    suite: Suite, *, runs: int | None, seed: int, processes: int, done: Callable[[int, int], None]
) -> pd.DataFrame:
    """Run every job of the suite; return one row per experiment, data, mechanism, ε, measure and place.

    Parameters
    ----------
    runs
        For each mechanism; None: what the experiments say.
    seed
        Of the first run; run i has seed + i, the same for all mechanisms.
    done
        Called with the numbers of finished and of all jobs.

    Returns
    -------
    DataFrame
        Columns experiment, data, cells, mechanism, epsilon, measure, along, at, error, standard_error,
        published, runs, seconds (median of a run, processor time), refused.
    """
    jobs = planned(suite, runs, seed)
    outcomes: dict[Key, list[Outcome]] = {}
    done(0, len(jobs))
    for number, outcome in enumerate(_outcomes(jobs, processes), start=1):
        job = outcome.job
        outcomes.setdefault((job.data, job.contender, job.epsilon), []).append(outcome)
        done(number, len(jobs))
    return _framed(
        suite, {key: sorted(runs, key=lambda one: one.job.seeds) for key, runs in outcomes.items()}
    )


def _outcomes(jobs: list[Job], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(run_job, jobs)
        return
    with _one_thread_each():
        # spawned, not forked: this process may hold threads of plotting and database libraries
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        try:
            waiting: list[Future[Outcome]] = [pool.submit(run_job, job) for job in jobs]
            for future in as_completed(waiting):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let the processes, not the libraries inside them, share the cores."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _framed(suite: Suite, outcomes: dict[Key, list[Outcome]]) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for experiment in suite.experiments:
        for data in experiment.data:
            cells = data.counts().size
            for contender in experiment.taking_part(data):
                for epsilon in experiment.epsilons:
                    runs = outcomes[data, contender, epsilon]
                    head = {
                        "experiment": experiment.name,
                        "data": data.name,
                        "cells": cells,
                        "mechanism": contender.label,
                        "epsilon": str(epsilon),
                    }
                    rows += [{**head, **row} for row in _rows_of(experiment, data, contender, epsilon, runs)]
    return pd.DataFrame(rows, columns=_COLUMNS)


_COLUMNS = [
    *("experiment", "data", "cells", "mechanism", "epsilon", "measure", "along", "at", "error"),
    *("standard_error", "published", "runs", "seconds", "refused"),
]


def _rows_of(
    experiment: Experiment, data: DataSet, contender: Contender, epsilon: Fraction, outcomes: list[Outcome]
) -> Iterator[dict[str, Any]]:
    refused = next((outcome.refused for outcome in outcomes if outcome.refused), "")
    if refused:
        yield {"measure": experiment.measures[0], "along": "", "at": "", "runs": 0, "refused": refused}
        return
    seconds = float(np.median([one for outcome in outcomes for one in outcome.seconds]))
    for measure in experiment.judged_by():
        runs = [run[measure.name] for outcome in outcomes for run in outcome.errors if measure.name in run]
        if not runs:
            refused = "its release says nothing of single cells"
            yield {"measure": measure.name, "along": measure.along, "at": "", "runs": 0, "refused": refused}
        for key in runs[0] if runs else ():
            values = np.array([run[key] for run in runs])
            spread = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None
            paper = experiment.published if measure.name == experiment.measures[0] else {}
            yield {
                "measure": measure.name,
                "along": measure.along,
                "at": key,
                "error": float(values.mean()),
                "standard_error": spread,
                "published": paper.get((data.name, contender.label, str(epsilon))),
                "runs": values.size,
                "seconds": seconds,
                "refused": "",
            }


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
    unknown = {
        one.name
        for experiment in suite.experiments
        for data in experiment.data
        for one in experiment.taking_part(data)
    }
    if missing := sorted(unknown - set(MECHANISMS)):
        raise InputError(f"not built yet: {', '.join(missing)}", where=f"--suite {suite.name}")

    results = run_suite(suite, runs=runs, seed=seed, processes=processes or os.cpu_count() or 1, done=done)
    _write(suite, results, folder, seed)
    return results


def _write(suite: Suite, results: pd.DataFrame, folder: Path, seed: int) -> None:
    from tabularium.lab.comparison.pages import drawn, page

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
