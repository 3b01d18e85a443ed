"""From a YAML file to a `Loaded` release spec, or to every problem it has.

No data is opened here: the source may not even exist yet. What is read is the spec and its code lists,
which are public.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tabularium.validations.domains.code_lists import published_name
from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.known_marginals import KnownMarginal, PriorTable, public_prior
from tabularium.validations.release_spec.checks.column_checks import check_columns, check_derivations
from tabularium.validations.release_spec.checks.fact_checks import (
    check_impossible,
    check_impossible_cells,
    check_invariants,
    check_rates,
    check_universes,
)
from tabularium.validations.release_spec.checks.prior_checks import check_priors, published_places
from tabularium.validations.release_spec.checks.publication_checks import (
    check_formats,
    check_publication,
    check_targets,
)
from tabularium.validations.release_spec.checks.source_checks import (
    check_look_ups,
    check_postprocessing,
    check_privacy,
    check_rules,
    check_source,
)
from tabularium.validations.release_spec.checks.table_checks import (
    check_arrays,
    check_histograms,
    check_tables,
    fill_in,
    fits,
    level_cells,
    table_cells,
)
from tabularium.validations.release_spec.kinds import PeriodName, ReleaseName, format_of
from tabularium.validations.release_spec.model import ReleaseSpec, SpecFile
from tabularium.validations.release_spec.partial_spec import read_spec
from tabularium.validations.release_spec.problems import Problem, SpecProblems, ordered
from tabularium.validations.release_spec.publication_formats import reserved_names
from tabularium.validations.release_spec.scalars import Reason
from tabularium.validations.release_spec.source import (
    DatabaseTable,
    is_in_store,
    located,
    published_source,
    url_problem,
)
from tabularium.validations.release_spec.tables import ABOVE, Table
from tabularium.validations.release_spec.yaml_lines import Document, read_yaml, see_filled_in
from tabularium.validations.universes.impossible_cells import Bools, impossible_by_level, impossible_in

#: Option -> its key in the file, what it may be, what is wrong with another value, and the hint.
_OPTIONS: dict[str, tuple[str, TypeAdapter[str], str, str]] = {
    "--period": (
        *("period", TypeAdapter(PeriodName), "is not a name that fits here"),
        'use letters, digits, . _ and -, for instance "2026-Q1"',
    ),
    "--revises": (
        *("revises", TypeAdapter(Reason), "is no reason"),
        "write one line of at most 200 characters",
    ),
    "--measurements-of": (
        *("measurements_of", TypeAdapter(ReleaseName), "is no release's id"),
        "copy all 32 digits and small letters from the name of its folder",
    ),
}
_LOCATION = ("path", "url", "table", "engine", "master")  # of the source: where the data are
_READING = {"ignore", "limits"}  # of files: what is left out there, and how much is read
_NOT_PUBLISHED: Any = {
    "source": {*_LOCATION, *_READING},
    "lookups": {"__all__": {"path", *_READING}},
    "publication": {"folder"},
    "workspace": True,
    # Expected numbers of records serve only `check`; a true one, written by mistake, goes nowhere.
    "size": True,
    "tables": {"__all__": {"size"}},
}
#: What is done with measurements once they are drawn, and its description.
_AFTER_MEASURING = (
    *("postprocessing", "about", "publication", "revises", "measurements_of"),
    *("targets", "tuning"),  # a run ignores them; `tuning` is in the digest, to be approved
    "figures",  # published rates are over them; that a rate is over some stands with the rate
)
_DIGEST_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Loaded:
    """A release spec that is in order, with its code lists read.

    Attributes
    ----------
    path, folder
        The spec file and its folder, absolute.
    domains
        The public domain of every declared column.
    public_files
        File name of each code list, and file of invariants or figures -> SHA-256, hexadecimal; of public
        look-ups by ``lookups.NAME``, of certificates of earlier releases by ``prior-releases.ID``.
    digest
        Names what is published and at what price; see `spec_digest`.
    published_spec
        The spec as plain JSON values, without where the data are.
    source_uri
        Absolute path, glob or folder of the data, or the database URL.
    known, figures
        The invariants, and the public figures that rates are over, with their numbers; as in the spec.
    priors
        Table -> the published table of an earlier release towards which it is drawn.
    """

    spec: ReleaseSpec
    path: Path
    folder: Path
    domains: dict[str, Domain]
    public_files: dict[str, str]
    digest: str
    published_spec: dict[str, Any]
    source_uri: str
    known: tuple[KnownMarginal, ...] = ()
    figures: tuple[KnownMarginal, ...] = ()
    priors: Mapping[str, PriorTable] = field(default_factory=dict)

    def leaf_shape(self, table: Table) -> tuple[int, ...]:
        """Return the shape of a table at its leaves, in the order of its dimensions."""
        return tuple(self.domain_of(table, name).size for name in table.dimensions)

    def domain_of(self, table: Table, name: str) -> Domain:
        """Return the domain of a dimension of a table, or of the array of a measure."""
        part = None if table.measured is None else table.measured.part_domain
        return self.domains[name] if part is None or name != part.name else part

    def in_slabs(self, table: Table) -> bool:
        """Whether a table is too large to be held at once."""
        return not fits(table_cells(table, self.domains))

    def level_cells(self, table: Table) -> dict[str, int]:
        """Return the number of cells measured with each level; under ``""`` without a hierarchy."""
        return level_cells(table, self.domains)

    def cells(self, table: Table) -> int:
        """Return the number of cells of a table over all its measured levels."""
        return table_cells(table, self.domains)

    def measured_cells(self, table: Table) -> dict[str, int]:
        """Return the number of cells of each measured level that somebody can be in."""
        none = impossible_by_level(self.impossible_in(table), self.domains, table)
        return {level: size - none.get(level, 0) for level, size in self.level_cells(table).items()}

    def impossible_in(self, table: Table) -> Bools | None:
        """Return which cells of a table or array are impossible, (nodes, cells); None where none is."""
        parts = None if table.measured is None else table.measured.parts
        key = table.dimensions, table.along, tuple(table.levels), parts, table.where, table.mechanism
        if key not in self._impossible:
            self._impossible[key] = impossible_in(self.spec, self.domains, table)
        return self._impossible[key]

    @cached_property
    def _impossible(self) -> dict[Any, Bools | None]:
        """What was worked out before."""
        return {}


@dataclass(frozen=True)
class Examined:
    """What `examine` found: a loaded spec, or problems."""

    loaded: Loaded | None
    problems: tuple[Problem, ...] = field(default=())


def load_spec(
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    period: str | None = None,
    revises: str | None = None,
    measurements_of: str | None = None,
    rehearsed: bool = False,
) -> Loaded:
    """Read a release spec and its code lists.

    Parameters
    ----------
    source
        Read this instead of the spec's source: a file, glob or folder (relative to the current folder), an
        address, or a database URL, for which the spec names the table.
    period
        Publish for this period instead of the spec's.
    revises
        Publish a revision for this reason, as if the spec stated it.
    measurements_of
        Make it from the measurements of this earlier release, as if the spec stated it.
    rehearsed
        Open no earlier release: no table is drawn towards one.

    Raises
    ------
    SpecProblems
        Holding every problem of the spec, of its code lists and of the options.
    """
    examined = examine(
        path,
        source=source,
        period=period,
        revises=revises,
        measurements_of=measurements_of,
        rehearsed=rehearsed,
    )
    if examined.loaded is None:
        raise SpecProblems(examined.problems)
    return examined.loaded


def examine(
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    period: str | None = None,
    revises: str | None = None,
    measurements_of: str | None = None,
    rehearsed: bool = False,
) -> Examined:
    """Return the loaded spec, or all its problems in the order of the file; raises nothing.

    ``rehearsed``: earlier releases are not opened, and no table is drawn towards one.
    """
    file = Path(os.path.abspath(path))  # noqa: PTH100 - links stay, so that relative paths mean what they say
    document = read_yaml(file)
    loaded = None
    if format_of(file.name) is not None and file.is_file() and not isinstance(document.data, dict):
        document.problems.clear()  # that it is no text, say
        hint = "give the YAML file; it names its data under source, and --source names others"
        document.add((), "is a file of data, and no release spec", hint)
    elif isinstance(document.data, dict):
        given = {"--period": period, "--revises": revises, "--measurements-of": measurements_of}
        _override(document, source, given)
        if rehearsed:
            _leave_out_priors(document.data.get("tables"))
        loaded = _load(document, file) if see_filled_in(document) else None
    elif not document.problems:
        what = "the file is empty" if document.data is None else "the file does not hold `key: value` lines"
        document.add((), what, "begin with product:, see docs/reference/spec/index.md")
    problems = ordered(document.problems, document.file)
    if source is not None:
        problems = [
            replace(problem, line=None, field="--source", file="")
            if problem.field == "source.path"
            else problem
            for problem in problems
        ]
    return Examined(None if problems else loaded, tuple(problems))


def _override(document: Document, source: str | None, options: Mapping[str, str | None]) -> None:
    """Put the command line's source, period, reason of a revision … in the place of the file's."""
    data: dict[str, Any] = document.data
    for option, value in options.items():
        key, kind, what, hint = _OPTIONS[option]
        if value is not None:
            try:
                data[key] = kind.validate_python(value)
            except ValidationError:
                _option(document, option, what, hint)
    written = data.get("source", {})
    if source is None or not isinstance(written, dict):
        return
    engine = written.get("engine")
    if "://" not in source or engine == "spark" or is_in_store(source):
        kept = {key: value for key, value in written.items() if key not in _LOCATION}
        if engine == "spark":
            kept |= {key: written[key] for key in ("engine", "master") if key in written}
        absolute = source if "://" in source else os.path.abspath(source)  # noqa: PTH100 - it may be a glob
        data["source"] = {**kept, "path": absolute}
        return
    wrong = url_problem(source)
    if wrong is None and "table" not in written:
        wrong = "is a database, and the spec does not name a table", "add table: to the source of the spec"
    if wrong is not None:
        _option(document, "--source", *wrong)
        return
    keys = ("table", "max_rejected", *(["engine"] if engine == "postgresql" else []))
    kept = {key: value for key, value in written.items() if key in keys}
    data["source"] = {**kept, "url": source}


def _leave_out_priors(tables: Any) -> None:
    for table in tables if isinstance(tables, list) else ():
        if isinstance(table, dict) and table.get("prior", ABOVE) != ABOVE:
            del table["prior"]


def _option(document: Document, name: str, what: str, hint: str) -> None:
    document.problems.append(Problem(None, name, what, hint))


def _load(document: Document, file: Path) -> Loaded | None:
    """Check everything; return the loaded spec when there is no problem."""
    parsed, partial = read_spec(document)
    check_source(partial)
    check_privacy(partial)
    check_publication(partial)
    check_postprocessing(partial)
    check_columns(partial, file.parent)
    partial.check_names(reserved_names())
    check_derivations(partial)
    check_tables(partial)
    check_universes(partial)
    check_formats(partial)
    check_histograms(partial)
    check_invariants(partial, file.parent)
    check_impossible(partial)
    check_rates(partial, file.parent)
    check_rules(partial)
    check_targets(partial)
    check_look_ups(partial, file.parent)
    check_priors(partial, published_places(partial, file.parent))
    if parsed is None or document.problems:
        return None
    share = Fraction(1, len(parsed.tables))
    parts = {name: getattr(parsed, name) for name in SpecFile.model_fields if name != "tables"}
    definition = parsed.privacy.definition
    tables = tuple(fill_in(table, partial.domains, share, definition) for table in parsed.tables)
    spec = ReleaseSpec(**parts, tables=tables)
    check_arrays(partial, spec, {array.name: table_cells(array, partial.domains) for array in spec.arrays})
    check_impossible_cells(partial, spec)
    if document.problems:
        return None
    return Loaded(
        spec=spec,
        path=file,
        folder=file.parent,
        domains=partial.domains,
        public_files=dict(sorted(partial.public_files.items())),
        digest=spec_digest(spec, partial.public_files),
        published_spec=published(spec),
        source_uri=_uri(spec, file.parent),
        known=tuple(partial.known),
        figures=tuple(partial.public),
        priors=partial.priors,
    )


def _uri(spec: ReleaseSpec, folder: Path) -> str:
    if isinstance(spec.source, DatabaseTable):
        return spec.source.url
    return located(spec.source.path or "", spec.period, folder)


def published(spec: ReleaseSpec) -> dict[str, Any]:
    """Return the spec as plain JSON values, every default written out, without where anything lies.

    `ReleaseSpec.model_validate` reads it back.
    """
    spec = spec.model_copy(update={"source": published_source(spec.source)})
    values = spec.model_dump(mode="json", by_alias=True, exclude=_NOT_PUBLISHED)
    return _named({name: _without_null(value) for name, value in values.items() if value is not None})


def measurement_plan(spec: ReleaseSpec, public_files: dict[str, str]) -> dict[str, Any]:
    """Return what of a spec decides what is measured and how, as plain JSON values.

    Two specs with the same plan differ only in what is done with the measurements: in post-processing,
    publication, the public figures that rates are over, titles and units, and the description of the product,
    and of the plan itself.
    """
    values = published(spec)
    plan = {name: value for name, value in values.items() if name not in _AFTER_MEASURING}
    for entry in (*plan["columns"].values(), *plan["tables"], *plan["histograms"]):
        entry.pop("title", None)
        entry.pop("prior", None)  # towards which measurements are drawn after they were made
        for measure in entry.get("measures", {}).values():
            measure.pop("title", None)
            measure.pop("unit", None)
    only = {Path(figure.values).name for figure in spec.figures if figure.values}
    only -= {Path(invariant.values).name for invariant in spec.invariants if invariant.values}
    only |= {public_prior(table.prior) for table in spec.tables if table.prior not in (None, ABOVE)}
    lists = {name: digest for name, digest in public_files.items() if name not in only}
    return {**plan, "code_lists": lists}


def spec_digest(spec: ReleaseSpec, public_files: dict[str, str]) -> str:
    """Return the SHA-256 of what the spec publishes and at what price, hexadecimal.

    It covers the spec and the contents of its code lists, not where data and releases lie, nor targets and
    sizes, which a run ignores. Values equal to their defaults are left out, so that a field added later does
    not rename releases made before it; for the same reason a default never changes its meaning.
    """
    left_out = {**_NOT_PUBLISHED, "targets": True}
    values = spec.model_dump(mode="json", by_alias=True, exclude=left_out, exclude_defaults=True)
    values = {name: value for name, value in _named(values).items() if value not in ({}, [])}
    content = {"format": _DIGEST_FORMAT, "spec": values, "code_lists": public_files}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_null(value: Any) -> Any:
    """Drop what is absent; `exclude_none` would also drop None values that are written as text."""
    if isinstance(value, dict):
        return {key: _without_null(inner) for key, inner in value.items() if inner is not None}
    return [_without_null(inner) for inner in value] if isinstance(value, list) else value


def _named(values: dict[str, Any]) -> dict[str, Any]:
    """Reduce the path of every public file to its name: a release does not depend on where it lies."""
    for column in values["columns"].values():
        for key in ("categories", "hierarchy"):
            if isinstance(column.get(key), str):
                column[key] = published_name(column[key])
    for numbers in (*values.get("invariants", ()), *values.get("figures", ())):
        if "values" in numbers:
            numbers["values"] = Path(numbers["values"]).name
    return values
