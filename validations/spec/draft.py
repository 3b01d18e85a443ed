"""A spec while it is being checked: every piece that reads well, although others may not.

Checks of what must fit together run on whatever could be read, so that one mistake does not hide the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from validations.domains.domains import Domain
from validations.domains.known_marginals import KnownMarginal
from validations.spec.model import (
    Column,
    Histogram,
    Invariant,
    PostProcessing,
    Privacy,
    Publication,
    Rule,
    Source,
    TableEntry,
)
from validations.spec.problems import Path
from validations.spec.yaml_lines import Document

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)
M = TypeVar("M", bound=BaseModel)


@dataclass
class Draft:
    """The readable pieces of a spec.

    Attributes
    ----------
    columns
        Every declared column; None where its declaration does not read.
    tables, histograms, invariants, rules
        The readable ones, with their place in the file. Of a table, keys that do not read are left out.
    unread
        The paths of the keys that were left out.
    domains
        The domains of the columns that are in order.
    known
        The invariants that are in order, with their numbers.
    """

    document: Document
    source: Source | None = None
    privacy: Privacy | None = None
    publication: Publication | None = None
    postprocessing: PostProcessing | None = None
    columns: dict[str, Column | None] = field(default_factory=dict)
    tables: list[tuple[int, TableEntry]] = field(default_factory=list)
    histograms: list[tuple[int, Histogram]] = field(default_factory=list)
    invariants: list[tuple[int, Invariant]] = field(default_factory=list)
    rules: list[tuple[int, Rule]] = field(default_factory=list)
    domains: dict[str, Domain] = field(default_factory=dict)
    known: list[KnownMarginal] = field(default_factory=list)
    public_files: dict[str, str] = field(default_factory=dict)
    unread: set[Path] = field(default_factory=set)

    @classmethod
    def of(cls, document: Document) -> Draft:
        """Read what can be read of the document's data, which is a mapping."""
        data: dict[str, Any] = document.data
        draft = cls(document)
        draft.source = _read(Source, data.get("source"))
        draft.privacy = _read(Privacy, data.get("privacy"))
        draft.publication = _read(Publication, data.get("publication", {}))
        draft.postprocessing = _read(PostProcessing, data.get("postprocessing", {}))
        columns, tables, rules = data.get("columns"), data.get("tables"), data.get("rules")
        for name, value in columns.items() if isinstance(columns, dict) else ():
            draft.columns[name] = _read(Column, value)
        for place, value in enumerate(tables if isinstance(tables, list) else ()):
            draft._read_table(place, value)
        histograms = data.get("histograms")
        for place, value in enumerate(histograms if isinstance(histograms, list) else ()):
            if (histogram := _read(Histogram, value)) is not None:
                draft.histograms.append((place, histogram))
        invariants = data.get("invariants")
        for place, value in enumerate(invariants if isinstance(invariants, list) else ()):
            if (invariant := _read(Invariant, value)) is not None:
                draft.invariants.append((place, invariant))
        for place, value in enumerate(rules if isinstance(rules, list) else ()):
            try:
                draft.rules.append((place, _RULE.validate_python(value)))
            except ValidationError:
                continue
        return draft

    def _read_table(self, place: int, value: Any) -> None:
        """Keep what reads of a table; what hangs on a key that does not read is left out with it."""
        try:
            self.tables.append((place, TableEntry.model_validate(value)))
            return
        except ValidationError as error:
            errors = error.errors(include_url=False)
        if not isinstance(value, dict):
            return
        out = {str(e["loc"][0]) for e in errors}
        if any(e["type"] == "extra_forbidden" and len(e["loc"]) == 1 for e in errors):
            out |= {"share", "levels", "along", "mechanism"}  # one of them may be meant
        for key, hangs_on in (("parameters", "mechanism"), ("levels", "along")):
            if hangs_on in out:
                out.add(key)
        self.unread |= {("tables", place, key) for key in out}
        kept = {key: inner for key, inner in value.items() if key not in out}
        table = _read(TableEntry, {"name": f"unnamed_{place}", **kept})
        if table is not None:
            self.tables.append((place, table))

    def reads(self, path: Path) -> bool:
        """Return whether the value at ``path`` is as written, or absent, and not left out for a mistake."""
        return path not in self.unread and not self.document.is_tainted(path)

    def add(self, path: Path, what: str, mend: str) -> None:
        """Note a problem, unless the YAML at ``path`` was at fault already."""
        if not self.document.is_tainted(path):
            self.document.add(path, what, mend)

    def count(self) -> int:
        """Return the number of problems so far."""
        return len(self.document.problems)


def _read(model: type[M], value: Any) -> M | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None
