"""A spec while it is being checked: every piece that reads well, although others may not.

Checks of what must fit together run on every piece that could be read, so that one mistake does not hide
another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.known_marginals import KnownMarginal, PriorTable
from tabularium.validations.spec.columns import Column
from tabularium.validations.spec.privacy import Privacy, Rule
from tabularium.validations.spec.problems import Path, choose, quoted
from tabularium.validations.spec.publication import About, PostProcessing, Publication
from tabularium.validations.spec.source import Files, LookUp, Source, taken_from
from tabularium.validations.spec.tables import Figures, Histogram, Impossible, Invariant, TableEntry
from tabularium.validations.spec.targets import Target
from tabularium.validations.spec.yaml_lines import Document

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)
_COLUMN: TypeAdapter[Column] = TypeAdapter(Column)
_SOURCE: TypeAdapter[Source] = TypeAdapter(Source)
_TARGET: TypeAdapter[Target] = TypeAdapter(Target)
T = TypeVar("T")
#: What else lies in the folder of a release, beside files of formats: a test holds the two together.
RESERVED = frozenset(
    {
        *("certificate", "codes", "figures", "invariants", "measurements", "rounding_exceptions"),
        *("registry", "report", "statement"),
    }
)


@dataclass
class Draft:
    """The readable pieces of a spec.

    Attributes
    ----------
    columns, lookups
        Every declared one; None where its declaration does not read.
    tables, histograms, invariants, figures, impossible, rules, targets
        The readable ones, with their place in the file. Of a table, keys that do not read are left out.
    unread
        The paths of the keys that were left out.
    domains
        The domains of the columns that are in order.
    known, public
        The invariants, and the figures that rates are over, that are in order, with their numbers.
    priors
        Table -> what it is drawn towards, where that is in order.
    """

    document: Document
    source: Source | None = None
    lookups: dict[str, LookUp | None] = field(default_factory=dict)
    privacy: Privacy | None = None
    publication: Publication | None = None
    postprocessing: PostProcessing | None = None
    columns: dict[str, Column | None] = field(default_factory=dict)
    tables: list[tuple[int, TableEntry]] = field(default_factory=list)
    histograms: list[tuple[int, Histogram]] = field(default_factory=list)
    invariants: list[tuple[int, Invariant]] = field(default_factory=list)
    impossible: list[tuple[int, Impossible]] = field(default_factory=list)
    figures: list[tuple[int, Figures]] = field(default_factory=list)
    rules: list[tuple[int, Rule]] = field(default_factory=list)
    targets: list[tuple[int, Target]] = field(default_factory=list)
    domains: dict[str, Domain] = field(default_factory=dict)
    known: list[KnownMarginal] = field(default_factory=list)
    public: list[KnownMarginal] = field(default_factory=list)
    priors: dict[str, PriorTable] = field(default_factory=dict)
    public_files: dict[str, str] = field(default_factory=dict)
    unread: set[Path] = field(default_factory=set)

    @classmethod
    def of(cls, document: Document) -> Draft:
        """Read what can be read of the document's data, which is a mapping."""
        data: dict[str, Any] = document.data
        draft = cls(document)
        draft.source = _read(_SOURCE, data.get("source"))
        lookups = data.get("lookups")
        for name, value in lookups.items() if isinstance(lookups, dict) else ():
            draft.lookups[str(name)] = _read(LookUp, value)
        draft.privacy = _read(Privacy, data.get("privacy"))
        draft.publication = _read(Publication, data.get("publication", {}))
        draft.postprocessing = _read(PostProcessing, data.get("postprocessing", {}))
        columns = data.get("columns")
        for name, value in columns.items() if isinstance(columns, dict) else ():
            draft.columns[name] = _read(_COLUMN, value)
        draft.tables = _each(data.get("tables"), draft._table)
        draft.histograms = _each(data.get("histograms"), lambda _, value: _read(Histogram, value))
        draft.invariants = _each(data.get("invariants"), lambda _, value: _read(Invariant, value))
        draft.impossible = _each(data.get("impossible"), lambda _, value: _read(Impossible, value))
        draft.figures = _each(data.get("figures"), lambda _, value: _read(Figures, value))
        draft.rules = _each(data.get("rules"), lambda _, value: _read(_RULE, value))
        draft.targets = _each(data.get("targets"), lambda _, value: _read(_TARGET, value))
        return draft

    def _table(self, place: int, value: Any) -> TableEntry | None:
        """Return what reads of a table, without the keys that do not, and the keys that depend on them."""
        try:
            return TableEntry.model_validate(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        if not isinstance(value, dict):
            return None
        measures = value.get("measures")
        inside = [e for e in errors if e["loc"][0] == "measures" and len(e["loc"]) > 1]
        out = {str(e["loc"][0]) for e in errors if e not in inside}
        if any(e["type"] == "extra_forbidden" and len(e["loc"]) == 1 for e in errors):
            out |= {"share", "levels", "along", "mechanism"}  # one of them may be meant
        for key, needed in (("parameters", "mechanism"), ("levels", "along")):
            if needed in out:
                out.add(key)
        self.unread |= {("tables", place, key) for key in out}
        kept = {key: inner for key, inner in value.items() if key not in out}
        if "measures" in kept and isinstance(measures, dict):
            kept["measures"] = self._measures(("tables", place, "measures"), measures, inside)
        return _read(TableEntry, {"name": f"unnamed_{place}", **kept})

    def _measures(self, path: Path, written: dict[str, Any], errors: list[Any]) -> dict[str, Any]:
        """Return the measures that read, without keys that are not theirs."""
        kept = deepcopy(written)
        for error in errors:
            if error["type"] == "extra_forbidden":
                inner: Any = kept
                *above, key = error["loc"][1:]
                for step in above:  # the tags of pydantic's unions are no keys
                    inner = inner.get(step, inner)
                inner.pop(key, None)
                self.unread.add((*path, error["loc"][1], key))
        for error in errors:
            if error["type"] != "extra_forbidden":
                self.unread.add((*path, error["loc"][1]))
                kept.pop(error["loc"][1], None)
        return kept

    def reads(self, path: Path) -> bool:
        """Return whether the value at ``path`` is as written, or absent, and not left out for a mistake."""
        unread = any(path[: len(each)] == each or each[: len(path)] == path for each in self.unread)
        return not unread and not self.document.is_tainted(path)

    def add(self, path: Path, what: str, hint: str) -> None:
        """Note a problem, unless the YAML at ``path`` was at fault already."""
        if not self.document.is_tainted(path):
            self.document.add(path, what, hint)

    @property
    def language(self) -> str:
        """The language of titles and labels; English where what is written does not read."""
        about = _read(About, self.document.data.get("about", {}))
        return "en" if about is None else about.language

    def check_names(self, reserved: Collection[str]) -> None:
        """Check that no two tables, histograms or lists of public numbers bear the same name.

        Their files lie together: nor may one be called as something else in a release folder is, of which
        formats have ``reserved``.
        """
        first: dict[str, tuple[str, int]] = {}
        for kind in ("table", "histogram", "invariant", "figure"):
            for place, entry in getattr(self, f"{kind}s"):
                if entry.name in RESERVED or entry.name in reserved:
                    what = "something else in the folder of a release has this name"
                    self.add((f"{kind}s", place, "name"), what, f"call the {kind} otherwise")
                other, number = first.setdefault(entry.name, (kind, place))
                if (other, number) != (kind, place):
                    what = f"{other} {number + 1} has this name too"
                    self.add((f"{kind}s", place, "name"), what, f"give every {kind} its own name")

    def check_dimensions(self, path: Path, names: tuple[str, ...]) -> None:
        """Check that every name under ``path`` is that of a declared column, and stands there once."""
        for place, name in enumerate(names):
            if name in names[:place]:
                self.add((*path, place), f"{quoted(name)} is here twice", "name every column once")
            elif name not in self.columns:
                what = f"there is no column {quoted(name)} under `columns`"
                close = choose(name, self.columns, "declared columns")
                self.add((*path, place), what, f"{close} (or declare its public domain there)")

    def files_of(self, column: str) -> tuple[str, Files | None]:
        """Return the files in which a column stands, None if unread, behind the field that names them."""
        place, _ = taken_from(column, self.lookups)
        return (f"lookups.{place}", self.lookups[place]) if place else ("source", self.source)

    def count(self) -> int:
        """Return the number of problems so far."""
        return len(self.document.problems)


def _each(values: Any, read: Callable[[int, Any], T | None]) -> list[tuple[int, T]]:
    """Return the entries of a list that read well, each with its place; none where there is no list."""
    found = (
        (place, read(place, value)) for place, value in enumerate(values if isinstance(values, list) else ())
    )
    return [(place, entry) for place, entry in found if entry is not None]


def _read(kind: type[T] | TypeAdapter[T], value: Any) -> T | None:
    try:
        return (kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)).validate_python(value)
    except ValidationError:
        return None
