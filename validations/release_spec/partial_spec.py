"""A spec while it is being checked: every piece that reads well, although others may not.

Checks of what must fit together run on every piece that could be read, so that one mistake does not hide
another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.known_marginals import KnownMarginal, PriorTable
from tabularium.validations.release_spec.columns import COLUMNS, Column
from tabularium.validations.release_spec.kinds import BOUND_TAGS, CATEGORY_TAGS, NO_KIND, Part
from tabularium.validations.release_spec.measures.kinds import TAGGED
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.model import SpecFile
from tabularium.validations.release_spec.privacy import Privacy, Rule
from tabularium.validations.release_spec.problems import Path, choose, listed, nearest, quoted, shown
from tabularium.validations.release_spec.publication import About, PostProcessing, Publication
from tabularium.validations.release_spec.scalars import NEEDS_QUOTES
from tabularium.validations.release_spec.source import SOURCES, Files, LookUp, Source, taken_from
from tabularium.validations.release_spec.tables import Figures, Histogram, Impossible, Invariant, TableEntry
from tabularium.validations.release_spec.targets import TARGETS, Target
from tabularium.validations.release_spec.yaml_lines import Document

T = TypeVar("T")
_MAPPINGS = ("columns", "lookups")
_SINGLE = ("source", "privacy", "publication", "postprocessing", "about")
#: What else lies in the folder of a release, besides files of formats: a test holds the two together.
RESERVED = frozenset(
    {
        *("certificate", "codes", "figures", "invariants", "measurements", "rounding_exceptions"),
        *("registry", "report", "statement"),
    }
)


class ReadableParts(BaseModel):
    """The parts of a spec that read; None in the place of one that does not, so that others keep theirs."""

    source: Source | None = None
    lookups: dict[str, LookUp | None] = {}
    privacy: Privacy | None = None
    publication: Publication | None = Publication()
    postprocessing: PostProcessing | None = PostProcessing()
    about: About | None = About()
    columns: dict[str, Column | None] = {}
    tables: tuple[TableEntry | None, ...] = ()
    histograms: tuple[Histogram | None, ...] = ()
    invariants: tuple[Invariant | None, ...] = ()
    impossible: tuple[Impossible | None, ...] = ()
    figures: tuple[Figures | None, ...] = ()
    rules: tuple[Rule | None, ...] = ()
    targets: tuple[Target | None, ...] = ()


@dataclass
class PartialSpec:
    """The readable pieces of a spec.

    Attributes
    ----------
    columns, lookups
        Every declared one; None where its declaration does not read.
    tables, histograms, invariants, figures, impossible, rules, targets
        The readable ones, with their place in the file. A table's keys that do not read are left out.
    unread
        The paths of the keys that were left out.
    language
        The language of titles and labels; English where what is written does not read.
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
    language: str = "en"
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
    def of(cls, document: Document, parts: ReadableParts, unread: set[Path]) -> PartialSpec:
        """Return a spec from the parts that read."""
        return cls(
            document,
            source=parts.source,
            lookups=parts.lookups,
            privacy=parts.privacy,
            publication=parts.publication,
            postprocessing=parts.postprocessing,
            language="en" if parts.about is None else parts.about.language,
            columns=parts.columns,
            tables=_placed(parts.tables),
            histograms=_placed(parts.histograms),
            invariants=_placed(parts.invariants),
            impossible=_placed(parts.impossible),
            figures=_placed(parts.figures),
            rules=_placed(parts.rules),
            targets=_placed(parts.targets),
            unread=unread,
        )

    def reads(self, path: Path) -> bool:
        """Return whether the value at ``path`` is as written, or absent, and not left out for a mistake."""
        unread = any(
            path[: len(missing)] == missing or missing[: len(path)] == path for missing in self.unread
        )
        return not unread and not self.document.is_tainted(path)

    def add(self, path: Path, what: str, hint: str) -> None:
        """Note a problem, unless the YAML at ``path`` was at fault already."""
        if not self.document.is_tainted(path):
            self.document.add(path, what, hint)

    def check_names(self, reserved: Collection[str]) -> None:
        """Check that no two tables, histograms or lists of public numbers bear the same name.

        Their files lie together: nor may one be called as something else in a release folder is;
        formats name theirs in ``reserved``.
        """
        first: dict[str, tuple[str, int]] = {}
        for kind in ("table", "histogram", "invariant", "figure"):
            for index, entry in getattr(self, f"{kind}s"):
                if entry.name in RESERVED or entry.name in reserved:
                    what = "something else in the folder of a release has this name"
                    self.add((f"{kind}s", index, "name"), what, f"call the {kind} otherwise")
                other, number = first.setdefault(entry.name, (kind, index))
                if (other, number) != (kind, index):
                    what = f"{other} {number + 1} has this name too"
                    self.add((f"{kind}s", index, "name"), what, f"give every {kind} its own name")

    def check_dimensions(self, path: Path, names: tuple[str, ...]) -> None:
        """Check that every name under ``path`` names a declared column, and only once."""
        for index, name in enumerate(names):
            if name in names[:index]:
                self.add((*path, index), f"{quoted(name)} is here twice", "name every column once")
            elif name not in self.columns:
                what = f"there is no column {quoted(name)} under `columns`"
                close = choose(name, self.columns, "declared columns")
                self.add((*path, index), what, f"{close} (or declare its public domain there)")

    def files_of(self, column: str) -> tuple[str, Files | None]:
        """Return the field that names the files a column stands in, and them; None if unread or none."""
        look_up, _ = taken_from(column, self.lookups)
        if look_up:
            return f"lookups.{look_up}", self.lookups[look_up]
        return "source", self.source if isinstance(self.source, Files) else None

    def count(self) -> int:
        """Return the number of problems so far."""
        return len(self.document.problems)


def _placed(entries: Iterable[T | None]) -> list[tuple[int, T]]:
    """Return the entries of a list that read, with their places."""
    return [(index, entry) for index, entry in enumerate(entries) if entry is not None]


def read_spec(document: Document) -> tuple[SpecFile | None, PartialSpec]:
    """Read the document's data, which is a mapping; note what is wrong with it, and keep the parts that read.

    The data are validated, what has a mistake is left out, and the rest is validated once more.
    """
    try:
        spec = SpecFile.model_validate(document.data)
    except ValidationError as error:
        explain(error, SpecFile, document)
        data, unread = deepcopy(document.data), set[Path]()
        for problem in error.errors(include_url=False):
            unread |= _leave_out(data, path_of(problem["loc"]), unknown=problem["type"] == "extra_forbidden")
        return None, PartialSpec.of(document, _without_rest(data), unread)
    parts = {name: getattr(spec, name) for name in ReadableParts.model_fields}
    return spec, PartialSpec.of(document, ReadableParts.model_construct(**parts), set())


def _without_rest(data: dict[str, Any]) -> ReadableParts:
    """Return what reads when also the entries are left out whose keys are needed and have a mistake."""
    try:
        return ReadableParts.model_validate(data)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            _drop(data, path_of(problem["loc"])[:2])
    return ReadableParts.model_validate(data)


def _leave_out(data: dict[str, Any], path: Path, *, unknown: bool) -> set[Path]:
    """Leave out what has a mistake: of a table the key, of a measure a key that is unknown, else the entry.

    Returns
    -------
    The paths of the keys of tables that are left out, also of those that may be meant by an unknown key, or
    depend on one that is left out
    """
    if path[:1] != ("tables",) or len(path) < 3:
        _drop(data, path[: 2 if isinstance(data.get(str(path[0])), list) or path[0] in _MAPPINGS else 1])
        return set()
    table = data["tables"][path[1]]
    table.setdefault("name", f"unnamed_{path[1]}")
    if path[2] == "measures" and len(path) > 3:
        path = path if unknown and len(path) > 4 else path[:4]
        _drop(data, path)
        return {(*path[:4], *path[-1:]) if len(path) > 4 else path}
    keys = {str(path[2])}
    if unknown and len(path) == 3:
        keys |= {"share", "levels", "along", "mechanism"}  # one of them may be meant
    keys |= {key for key, needed in (("parameters", "mechanism"), ("levels", "along")) if needed in keys}
    for key in keys - {"name"}:
        table.pop(key, None)
    if "name" in keys:
        table["name"] = f"unnamed_{path[1]}"
    return {(*path[:2], key) for key in keys}


def _drop(data: dict[str, Any], path: Path) -> None:
    """Take the value at a path out of the data; of an entry its place stays, with None in it."""
    *above, last = path
    inner: Any = data
    for step in above:
        inner = inner.get(step) if isinstance(inner, dict) else inner[step]
        if not isinstance(inner, dict | list):
            return
    if isinstance(inner, list) or len(path) == 2 or path[0] in _SINGLE:
        inner[last] = None
    else:
        inner.pop(last, None)


# Errors of pydantic as problems: the field, the line, what is wrong, a hint.


_QUOTED = re.compile("'([^']*)'")
_KINDS: dict[str, type[Part]] = {**TAGGED, **SOURCES, **COLUMNS, **TARGETS}
_TAGS = {*BOUND_TAGS, *CATEGORY_TAGS, *_KINDS}
_NOT_A_MAPPING = ("model_type", "model_attributes_type", "dict_type")


def explain(error: ValidationError, model: type[BaseModel], document: Document) -> None:
    """Add every error of ``model`` to the document's problems, except where the YAML itself was at fault."""
    errors = error.errors(include_url=False)
    located = [(tuple(part for part in e["loc"] if part not in _TAGS), e) for e in errors]
    keys = {loc: _known_keys(e["loc"][:-1], model) for loc, e in located if e["type"] == "extra_forbidden"}
    meant = {(*loc[:-1], nearest(str(loc[-1]), known)) for loc, known in keys.items()}
    for loc, entry in located:
        path = path_of(loc)
        if document.is_tainted(path) or (entry["type"] == "missing" and loc in meant):
            continue
        if entry["type"] == NO_KIND and any(tainted[: len(path)] == path for tainted in document.tainted):
            continue  # the key is there, and its value does not read
        if loc in keys:
            what, hint = _key_of_another(entry["loc"], model) or _unknown_key(path, keys[loc])
        else:
            what, hint = _words(entry, path, document)
            if entry["type"] == "missing":
                hint += _example(entry["loc"], model)
        document.add(path, what, hint)


#: What other programs call a key -> the key, and its parent where it has only one.
_OTHER_WORDS = {
    **dict.fromkeys(("epsilon", "eps", "rho"), "privacy.budget"),
    **dict.fromkeys(("sep", "separator"), "source.delimiter"),
    **dict.fromkeys(("group_by", "groupby", "by"), "dimensions"),
    **dict.fromkeys(("min", "minimum", "lower"), "from"),
    **dict.fromkeys(("max", "maximum", "upper"), "to"),
}


def path_of(loc: Path) -> Path:
    """Return pydantic's location as a path in the file: without the tags of unions and keys."""
    path = tuple(part for part in loc if part != "[key]" and part not in _TAGS)
    if len(path) > 2 and path[0] == "rules":
        path = path[:2] + path[3:]  # the kind of the rule, which is not a key of the file
    return path


def _key_of_another(loc: Path, model: type[BaseModel]) -> tuple[str, str] | None:
    """Return the remark on a key that other kinds of the same thing have; None where none has it."""
    if len(loc) < 2 or loc[-2] not in _KINDS:
        return None
    name, kind = str(loc[-1]), _KINDS[str(loc[-2])]
    having = [candidate for candidate in _models(_follow(loc[:-2], model)) if name in keys_of(candidate)]
    if not having:
        return None
    if issubclass(kind, Measure):
        measures = [candidate for candidate in having if issubclass(candidate, Measure)]
        alike = next((measure.written_with for measure in measures if measure.keys == kind.keys), None)
        kinds = listed(list(dict.fromkeys(key for measure in measures for key in measure.keys)))
        hint = f"remove it; it is for {kinds}" if alike is None else f"remove it, or write {alike}"
        return f"a {' or '.join(kind.keys)} has no {quoted(name)}", hint
    other = next(candidate.written_as for candidate in having if issubclass(candidate, Part))
    hint = f"keep {kind.written_as} or {name}" if other == name else f"remove it, or write {other}"
    return f"{kind.kind_name} has no {quoted(name)}", hint


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys that a mapping in a file may have."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _example(loc: Path, model: type[BaseModel]) -> str:
    """Return how a key that is missing is written for instance, where its field says so."""
    for owner in _models(_follow(loc[:-1], model)):
        for name, info in owner.model_fields.items():
            if (info.alias or name) == loc[-1] and info.examples:
                return f", for instance {loc[-1]}: {info.examples[0]}"
    return ""


def _unknown_key(path: Path, known: list[str]) -> tuple[str, str]:
    name = str(path[-1])
    other = _OTHER_WORDS.get(name.casefold(), "")
    if other.rpartition(".")[2] in known:
        return f"there is no key {quoted(name)} here", f"did you mean {quoted(other.rpartition('.')[2])}?"
    if "." in other:
        return f"there is no key {quoted(name)} here", f"did you mean {quoted(other)}?"
    hint = choose(name, known, "known keys") if nearest(name, known) else f"known keys: {listed(known, 20)}"
    return f"there is no key {quoted(name)} here", hint


def _words(entry: Any, path: Path, document: Document) -> tuple[str, str]:
    """Return what is wrong and a hint."""
    kind, context, name = entry["type"], entry.get("ctx", {}), path[-1] if path else ""
    key = f"{shown(name)}: " if isinstance(name, str) and name else ""
    if kind == NEEDS_QUOTES:
        text = document.raw.get(path, str(entry["input"]))
        words = context["what"], f'write {key}"{shown(text)}" in quotes'
    elif "hint" in context:
        words = context["what"], context["hint"]
    elif kind in ("missing", "union_tag_not_found"):
        missing = "rule" if kind == "union_tag_not_found" else name
        words = f"{quoted(missing)} is missing", f"add `{missing}:`"
    elif kind == "union_tag_invalid":
        kinds = _QUOTED.findall(context["expected_tags"])
        words = f"there is no rule {quoted(context['tag'])}", choose(str(context["tag"]), kinds, "rules")
    elif kind == "literal_error":
        given = "" if isinstance(entry["input"], (dict, list)) else str(entry["input"])
        what = f"{quoted(given)} is not one of the choices" if given else "must be a single word"
        words = what, f"write {' or '.join(_QUOTED.findall(context['expected']))}"
    elif kind == "tuple_type":
        words = "must be a list", f"write {key}[a, b], or lines that begin with `- `"
    elif kind in _NOT_A_MAPPING:
        words = "must hold `key: value` lines", f"write {key}and under it, further to the right, its keys"
    else:
        words = "is not what is expected here", "see docs/reference/spec/index.md for this field"
    return words


def _known_keys(loc: Path, model: Any) -> list[str]:
    """Return the keys that the mapping at ``loc`` may have, following the models' annotations."""
    return list(
        dict.fromkeys(key for candidate in _models(_follow(loc, model)) for key in keys_of(candidate))
    )


def _follow(loc: Path, model: Any) -> Any:
    """Return the annotation at ``loc``."""
    for part in loc:
        if part not in _TAGS or part in _KINDS:
            model = _step(model, part)
    return model


def _step(kind: Any, part: str | int) -> Any:
    """Return the annotation of ``part`` inside ``kind``."""
    if part in _KINDS:
        return _KINDS[str(part)]
    if isinstance(part, int):
        return _inner(kind, tuple)
    models = _models(kind)
    for model in models if len(models) > 1 else []:  # a union: the part is the tag of one model
        if part in get_args(model.model_fields["rule"].annotation):
            return model
    for model in models:
        for name, info in model.model_fields.items():
            if part in (name, info.alias):
                return info.annotation
    return _inner(kind, dict)


def _inner(kind: Any, container: type) -> Any:
    """Return the annotation of the values of the tuple or dict inside ``kind``."""
    for option in _options(kind):
        if get_origin(option) is container:
            return get_args(option)[0 if container is tuple else 1]
    return None


def _models(kind: Any) -> list[type[BaseModel]]:
    return [k for k in _options(kind) if isinstance(k, type) and issubclass(k, BaseModel)]


def _options(kind: Any) -> list[Any]:
    """Return the alternatives of a union, without ``Annotated``."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _options(get_args(kind)[0])
    if origin in (Union, UnionType):
        return [option for argument in get_args(kind) for option in _options(argument)]
    return [kind]
