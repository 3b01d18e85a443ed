"""Data sets of comparisons: made-up data, published releases, and files that are declared public.

A comparison prints true errors, so it must never see confidential counts. What is refused: specs and
microdata, anything in a workspace or in an installation's home, files that their mode keeps from other
people, and any file of counts whose publication nobody states.
"""

from __future__ import annotations

import csv
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError, MechanismError
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.publish.read_release import Released

Counts = NDArray[np.int64]

_FILES = (".npy", ".npz", ".csv", ".parquet")
_MOST_CELLS = 1 << 27


@dataclass(frozen=True)
class DataSet:
    """A table of counts that everyone may see; ``says`` why, in words.

    ``location`` is the name of a made-up set; or a path; for a release, folder and table with ``#`` between.
    """

    name: str
    kind: Literal["made up", "release", "file"]
    location: str
    says: str

    def counts(self) -> Counts:
        """Return the counts, read-only, int64."""
        return made_up(self.location) if self.kind == "made up" else _loaded(self)


def made_up_set(name: str) -> DataSet:
    """Return the made-up data set of that name."""
    return DataSet(name, "made up", name, MADE_UP[name].says)


def public(text: str, because: str | None) -> DataSet:
    """Return the data set that a user names: a made-up one, FOLDER or FOLDER#TABLE, or a file of counts.

    ``because`` says where the counts of a file are published.

    Raises
    ------
    InputError
        There is no such thing, or it may be confidential.
    """
    if text in MADE_UP:
        return made_up_set(text)
    folder, _, table = text.partition("#")
    path = Path(folder)
    if not path.exists():
        close = get_close_matches(text, MADE_UP, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            "there is no data set, file or folder of that name",
            where=f"--data {text}",
            hint=f"{guess}made-up sets: {', '.join(MADE_UP)}",
        )
    _refuse_what_is_inside_an_installation(path.resolve(), text)
    if path.is_dir():
        return _release(path, table, text)
    return _file(path, text, because)


def _refuse(what: str, text: str, hint: str) -> NoReturn:
    raise InputError(f"refused: {what}; a comparison shows true errors", where=f"--data {text}", hint=hint)


def _refuse_what_is_inside_an_installation(path: Path, text: str) -> None:
    for folder in (path, *path.parents):
        if (folder / "workspaces").is_dir() or folder.name in {"workspaces", "measurements"}:
            _refuse(
                "this lies in an installation's home, where confidential things are kept",
                text,
                "name a published release or a made-up set",
            )


def _release(folder: Path, table: str, text: str) -> DataSet:
    tables = list(Released.open(folder, whole=True).certificate.tables)
    if not table and len(tables) == 1:
        table = tables[0]
    if table not in tables:
        raise InputError(
            "a release has several tables" if not table else "the release has no table of that name",
            where=f"--data {text}",
            hint=f"write {folder}#NAME with one of {', '.join(tables)}",
        )
    says = f"table {table} of a published release; what is called truth here is its released counts"
    return DataSet(table, "release", f"{folder.resolve()}#{table}", says)


def _file(path: Path, text: str, because: str | None) -> DataSet:
    if path.suffix in {".yaml", ".yml"}:
        _refuse("a release spec names confidential microdata", text, "name the folder that it published")
    if path.suffix not in _FILES:
        raise InputError(
            "counts are read from .npy, .npz, .csv and .parquet files",
            where=f"--data {text}",
            hint="save the counts in one of these",
        )
    if not path.stat().st_mode & stat.S_IROTH:
        _refuse(
            "its mode keeps this file from other people", text, "if it is public, let all read it: chmod o+r"
        )
    if not because or not because.strip():
        _refuse(
            "nothing says that this file is public",
            text,
            'say where it is published: --public "Office for Statistics, table 7, 2021"',
        )
    data = DataSet(path.stem, "file", str(path.resolve()), f"public: {because.strip()}")
    data.counts()  # reports now what is wrong with it
    return data


@lru_cache(maxsize=8)
def _loaded(data: DataSet) -> Counts:
    location, _, table = data.location.partition("#")
    table_read = _of_release(Path(location), table) if data.kind == "release" else _of_file(Path(location))
    values = np.asarray(table_read)
    rounded = np.rint(values.astype(np.float64)) if values.dtype.kind == "f" else values
    if rounded.dtype.kind not in "iuf" or (rounded.dtype.kind == "f" and not np.isfinite(rounded).all()):
        raise InputError("the counts are not numbers", where=data.name, hint="correct the file")
    counts = np.maximum(rounded, 0).astype(np.int64)
    if counts.size == 0 or counts.size > _MOST_CELLS:
        raise InputError(f"a table of 1 to {_MOST_CELLS:,} cells is needed", where=data.name, hint="cut it")
    counts.setflags(write=False)
    return counts


def _of_release(folder: Path, table: str) -> NDArray[Any]:
    return Released.open(folder).columns(table, "count")[0]


def _of_file(path: Path) -> NDArray[Any]:
    """Return the counts: an array, or a column called ``count``."""
    if path.suffix in {".npy", ".npz"}:
        try:
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                return np.asarray(loaded["counts"] if path.suffix == ".npz" else loaded)
        except (ValueError, KeyError, OSError):
            raise InputError(
                "no counts were found", where=path.name, hint="an .npz file holds them under the name counts"
            ) from None
    if path.suffix == ".parquet":
        import pyarrow.parquet

        names = pyarrow.parquet.ParquetFile(path).schema_arrow.names
        if "count" not in names:
            _no_counts(path)
        return np.asarray(pyarrow.parquet.read_table(path, columns=["count"])["count"].to_numpy())
    return np.array(list(_csv_column(path)))


def _csv_column(path: Path) -> Iterator[float]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if "count" not in (rows.fieldnames or []):
            _no_counts(path)
        for number, row in enumerate(rows, start=2):
            try:
                yield float(row["count"])
            except (TypeError, ValueError):
                raise InputError(
                    "this is not a number",
                    where=f"{path.name}, line {number}, column count",
                    hint="correct the file",
                ) from None


def _no_counts(path: Path) -> NoReturn:
    raise InputError(
        "there is no column called count: this may be microdata, which a comparison does not take",
        where=path.name,
        hint="give a table with one row per cell and its count",
    )


# Made-up data sets by name: look-alikes of the literature's, and what papers derive from such data.
#
# The papers' own files cannot be shipped. What is published about them can be matched: the number of bins
# and of empty bins, the total, the variance, the largest count, and how the counts lie next to each other. A
# look-alike has those, and is otherwise made up: it shows which mechanism wins on data of that kind, not
# the paper's third digit. Everything is generated from a fixed seed: the same counts on every machine.
#
# Sources of the characteristics: Acs, Castelluccia, Chen 2012, Table I; Xu et al. 2013, section 7; Chen et
# al. 2024, Table 1; Xiao, Xiong, Yuan 2010, section 6.


Field = NDArray[np.float64]
Order = Callable[[np.random.Generator, tuple[int, ...]], Field]


@dataclass(frozen=True)
class Likeness:
    """What is known of a histogram, and where that is published.

    The variance of the counts is over all bins, ``smallest`` the smallest count of a bin that is not
    ``empty``. The ranks of the field that ``order`` gives say which bin gets the larger count.
    """

    shape: tuple[int, ...]
    empty: int
    total: int
    variance: float
    largest: int
    order: Order
    source: str
    smallest: int = 1


def scattered(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    """No order at all."""
    return rng.random(shape)


def patches(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    """A map: neighbours are similar over some bins, with sharp edges between settled and empty land."""
    from scipy.ndimage import gaussian_filter

    field = sum(
        weight * _standard(gaussian_filter(rng.standard_normal(shape), width, mode="nearest"))
        for width, weight in ((6.0, 1.0), (2.0, 0.8), (0.7, 0.5))
    )
    return np.asarray(field)


def bursts(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    """A time series: quiet for long, then a rising level with peaks that die away."""
    from scipy.ndimage import gaussian_filter1d

    (size,) = shape
    time = np.arange(size) / size
    level = 4 / (1 + np.exp(-14 * (time - 0.55)))
    for _ in range(30):
        start, height = rng.integers(size), rng.exponential(1.5)
        after = np.arange(size - start) / (size * 0.004)
        level[start:] += height * np.exp(-after)
    return np.asarray(level + _standard(gaussian_filter1d(rng.standard_normal(size), 3.0)) * 0.7)


def nearly_sorted(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    """Descending but for some disorder."""
    return np.asarray(
        -np.arange(prod(shape)).reshape(shape) / prod(shape) + 0.01 * rng.standard_normal(shape)
    )


def ages(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    """A population pyramid: many young, few old, a little heaping."""
    (size,) = shape
    return np.asarray(-np.arange(size) / size + 0.02 * rng.standard_normal(size))


LIKENESSES: dict[str, Likeness] = {
    "location": Likeness((75, 103), 4720, 186_471, 4764.57, 467, patches, "Acs 2012, Table I"),
    "rochdale": Likeness((16, 16), 165, 665, 52.12, 57, scattered, "Acs 2012, Table I"),
    "search_log": Likeness((32_768,), 17_082, 335_872, 577.31, 496, bursts, "Acs 2012, Table I"),
    "nettrace": Likeness((65_536,), 63_318, 25_559, 91.01, 1423, nearly_sorted, "Acs 2012, Table I"),
    "social_network": Likeness((11_342,), 0, 674_736, 2995.0, 1678, scattered, "Chen 2024, Table 1"),
    "age": Likeness((101,), 0, 100_078_675, 4.5e11, 2_350_000, ages, "Xu 2013, section 7", smallest=500),
}


@lru_cache(maxsize=16)
def _made(name: str, seed: int) -> Counts:
    likeness = LIKENESSES[name]
    rng = generator(seed)
    values = matching_values(likeness)
    ranks = np.argsort(likeness.order(rng, likeness.shape).reshape(-1), kind="stable")
    counts = np.empty(values.size, dtype=np.int64)
    counts[ranks] = values
    counts.setflags(write=False)
    return counts.reshape(likeness.shape)


def lookalike(name: str, seed: int = 2012) -> Counts:
    """Return the made-up histogram called ``name``: int64, in the shape of the original.

    Raises
    ------
    MechanismError
        There is none of that name.
    """
    if name not in LIKENESSES:
        raise MechanismError(
            "there is no data set of that name",
            where="data set",
            hint=f"known are {', '.join(sorted(LIKENESSES))}",
        )
    return _made(name, seed)


def matching_values(likeness: Likeness) -> Counts:
    """Return sorted counts with the number of empty bins, total and largest count, and nearly the variance.

    The counts of filled bins are quantiles of a truncated gamma distribution, P(x) proportional to
    x^a·exp(-b·x) from the smallest to the largest count, with a and b such that mean and variance come out.
    With a negative it falls like a power with a cut-off, as most published counts do.
    """
    bins = prod(likeness.shape)
    others = bins - likeness.empty - 1  # the largest count is given
    squares = (likeness.variance + (likeness.total / bins) ** 2) * bins - likeness.largest**2
    support = np.unique(np.rint(np.geomspace(likeness.smallest, likeness.largest, 20_000)))
    weights = _gamma_weights(support, (likeness.total - likeness.largest) / others, squares / others)
    ranks = (np.arange(others) + 0.5) / others
    places = np.minimum(np.searchsorted(np.cumsum(weights), ranks), support.size - 1)
    values = np.append(support[places].astype(np.int64), likeness.largest)
    _settle(values, likeness.total, likeness.smallest, likeness.largest)
    return np.concatenate([np.zeros(likeness.empty, dtype=np.int64), values])


def _gamma_weights(support: Field, mean: float, second: float) -> Field:
    """Return probabilities on ``support`` with the given mean, and if there is such a one, second moment."""
    low, high = -6.0, 6.0  # a: the more negative, the heavier the tail at the same mean
    coarse = np.append(support[:-1:16], support[-1]) if support.size > 4000 else support
    for _ in range(40):
        middle = (low + high) / 2
        weights = _with_mean(coarse, middle, mean)
        low, high = (middle, high) if float(weights @ coarse**2) > second else (low, middle)
    return _with_mean(support, (low + high) / 2, mean)


def _with_mean(support: Field, power: float, mean: float) -> Field:
    """Return P(x) proportional to x^power·exp(-b·x)·spacing, with b such that the mean is right."""
    scaled = support / support[-1]
    base = power * np.log(support) + np.log(np.gradient(support))
    low, high = -200.0, 20_000.0
    for _ in range(80):
        middle = (low + high) / 2
        logs = base - middle * scaled
        weights = np.exp(np.maximum(logs - logs.max(), -700.0))  # what underflows is slow
        weights /= weights.sum()
        low, high = (middle, high) if float(weights @ support) > mean else (low, middle)
    return np.asarray(weights)


def _settle(values: Counts, total: int, smallest: int, largest: int) -> None:
    """Scale, then move by whole steps, all but the largest until the total is right; in place."""
    rest = values[:-1]
    rest[:] = np.clip(np.rint(rest * ((total - largest) / rest.sum())), smallest, largest)
    while (short := total - int(values.sum())) != 0:
        step = 1 if short > 0 else -1
        free = np.flatnonzero(rest < largest if step > 0 else rest > smallest)
        if free.size == 0:
            raise ValueError("the characteristics contradict each other")
        chosen = free[np.unique(np.linspace(0, free.size - 1, min(abs(short), free.size)).astype(np.int64))]
        rest[chosen] += step
    values.sort()


def _standard(field: Field) -> Field:
    return np.asarray((field - field.mean()) / field.std())


_PARITY = (1, 0, 1, 1, 0, 0, 1)  # which attributes count
_PARITY_NOISE = 0.1  # share of records whose last attribute says the wrong parity


def series(size: int) -> Counts:
    """Return made-up counts of shape (size,): plateaus of random height, some of them empty, and bursts."""
    rng = generator(size)
    plateaus = max(4, size // 64)
    heights = np.where(rng.random(plateaus) < 0.4, 0, rng.pareto(1.2, plateaus) * 5)
    edges = np.sort(rng.integers(0, size, plateaus))
    levels = heights[np.searchsorted(edges, np.arange(size)) % plateaus]
    return rng.poisson(np.minimum(levels, 4000)).astype(np.int64)


def values_of(name: str) -> Counts:
    """Return how often each count from 1 to the largest occurs in a look-alike (Xu et al. 2013, section 7).

    Shape (largest count,): bin i holds the number of the look-alike's bins whose count is i + 1.
    """
    return np.bincount(lookalike(name).reshape(-1))[1:].astype(np.int64)


def census(records: int = 1_000_000) -> Counts:
    """Return counts by age (79) and income class (100) of made-up people (Xiao et al. 2010, section 5).

    Ages thin out towards the old; incomes rise to the age of 50 and are log-normal about that, with a tenth
    of the people in class 0.
    """
    rng = generator(79)
    ages = np.minimum(rng.gamma(2.2, 16.0, records).astype(np.int64), 78)
    middle = 18 + 22 * np.exp(-(((ages - 35) / 22.0) ** 2))
    incomes = np.minimum(rng.lognormal(np.log(middle), 0.55).astype(np.int64), 99)
    incomes[rng.random(records) < 0.1] = 0
    table = np.bincount(ages * 100 + incomes, minlength=7900)
    return table.reshape(79, 100).astype(np.int64)


def parity(records: int = 20_000) -> Counts:
    """Return counts of shape (2,) * 8: the last attribute is the parity of four others, wrong for a tenth."""
    rng = generator(44)
    attributes = rng.integers(0, 2, (records, len(_PARITY)))
    label = (attributes @ np.array(_PARITY) + (rng.random(records) < _PARITY_NOISE)) % 2
    shape = (2,) * (len(_PARITY) + 1)
    places = np.ravel_multi_index(tuple(np.column_stack([attributes, label]).T), shape)
    return np.bincount(places, minlength=2 ** len(shape)).reshape(shape).astype(np.int64)


@dataclass(frozen=True)
class MadeUp:
    """A made-up data set: how it is made, and what it stands for."""

    make: Callable[[], Counts]
    says: str


MADE_UP: dict[str, MadeUp] = {
    name: MadeUp(partial(lookalike, name), f"made up, like the set described in {likeness.source}")
    for name, likeness in LIKENESSES.items()
}
for _name, _records in (("search_log", 32_768), ("nettrace", 65_536), ("social_network", 11_342)):
    MADE_UP[f"{_name}_values"] = MadeUp(
        partial(values_of, _name),
        f"number of bins by count in the made-up {_name} ({_records:,} records are declared)",
    )
MADE_UP["census"] = MadeUp(census, "made-up people by age and income class, as in Xiao et al. 2010")
MADE_UP["one_query"] = MadeUp(lambda: np.array([census().sum()]), "the answer to one counting query, made up")
MADE_UP["parity"] = MadeUp(
    parity, "made-up records of eight yes-or-no attributes, one the parity of four others"
)
for _power in range(10, 21, 2):
    MADE_UP[f"series_{1 << _power}"] = MadeUp(
        partial(series, 1 << _power), "a made-up time series with plateaus"
    )


@lru_cache(maxsize=8)
def made_up(name: str) -> Counts:
    """Return the made-up counts of that name, read-only."""
    counts = MADE_UP[name].make()
    counts.setflags(write=False)
    return counts
