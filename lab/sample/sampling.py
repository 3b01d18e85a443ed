"""The way in: a file of synthetic microdata, its code lists and a release spec that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tabularium.lab.sample.columns import first_rows
from tabularium.lab.sample.file_writing import split_ending, write_code_list, write_rows, written_aside
from tabularium.lab.sample.geography import MOST_MESHBLOCKS, default_meshblocks, draw_geography
from tabularium.lab.sample.sample_specs import KINDS, Kind, release_spec
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.noise.synthetic import generator


@dataclass(frozen=True)
class SampleFiles:
    """What was written: the microdata, each code list by name, the release spec, files beside the data."""

    data: Path
    code_lists: dict[str, Path]
    spec: Path
    beside: dict[str, Path] = field(default_factory=dict)


def write_sample(
    kind: Kind,
    rows: int,
    out: Path,
    *,
    seed: int = 1,
    meshblocks: int | None = None,
    progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> SampleFiles:
    """Write synthetic microdata of any size, without holding more than a block of it.

    Parameters
    ----------
    kind
        ``"census"``: persons in households. ``"health"``: hospital visits, several per patient.
        ``"households"``: persons with work and income, and their households in a second file. ``"labour"``: a
        labour force survey with weights. ``"hospital"``: hospital stays with dates and diagnoses.
    rows
        Number of records, exactly; of persons, for ``"households"``.
    out
        File to write; ``.parquet``, ``.csv`` or ``.csv.gz``. Beside it come the code lists, such as
        ``<stem>-areas.csv``, the spec ``<stem>.yaml``, and for households ``<stem>-households`` with the
        same ending.
    seed
        The same seed and number of meshblocks give the same records, in every format; a shorter sample is
        the beginning of a longer one.
    meshblocks
        Number of smallest areas; by default one for every hundred rows, between 40 and 100 000. The
        others know districts only, whose number grows with the square root.
    progress
        Called from time to time with the number of rows written so far.
    overwrite
        Replace files that are there.

    Raises
    ------
    InputError
        If an argument is out of range, a file exists, or the folder cannot be written to.
    """
    _check(kind, rows, seed, meshblocks)
    out = Path(out)
    stem, ending = split_ending(out)
    made = KINDS[kind]
    files = SampleFiles(
        out,
        {name: out.with_name(f"{stem}-{name}.csv") for name in made.code_lists},
        out.with_name(f"{stem}.yaml"),
        {name: out.with_name(f"{stem}-{name}{ending}") for name in made.beside},
    )
    targets = [*files.code_lists.values(), files.data, *files.beside.values(), files.spec]
    with written_aside(targets, overwrite=overwrite) as aside:
        list_files, (*data_files, spec_file) = aside[: len(made.code_lists)], aside[len(made.code_lists) :]
        for_places, for_records = generator(seed).spawn(2)
        geography = draw_geography(for_places, meshblocks or default_meshblocks(rows))
        for path, codes in zip(list_files, made.code_lists.values(), strict=True):
            write_code_list(path, codes(geography))
        blocks = made.blocks(for_records, geography)
        write_rows(data_files, ending, first_rows(blocks, rows), progress or _silent)
        spec_file.write_text(release_spec(kind, stem, ending), encoding="utf-8")
    return files


def _check(kind: str, rows: int, seed: int, meshblocks: int | None) -> None:
    if kind not in KINDS:
        raise InputError(
            "there is no such kind of sample", where="kind", hint=f"choose one of {', '.join(KINDS)}"
        )
    if not _whole(rows) or rows < 1:
        raise InputError("the number of rows is not positive", where="rows", hint="ask for at least 1")
    if not _whole(seed) or seed < 0:
        raise InputError("the seed is not a whole number from 0", where="seed", hint="choose 0, 1, 2, ...")
    if meshblocks is not None and not (_whole(meshblocks) and 1 <= meshblocks <= MOST_MESHBLOCKS):
        raise InputError(
            "the number of meshblocks is out of range",
            where="meshblocks",
            hint=f"choose 1 to {MOST_MESHBLOCKS}",
        )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _silent(rows: int) -> None:
    """Report nothing."""
