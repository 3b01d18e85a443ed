"""What pydantic found, said as problems: the field, the line, what is wrong, how to mend it."""

from __future__ import annotations

import re
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tabularium.validations.release_spec.columns import COLUMNS
from tabularium.validations.release_spec.kinds import BOUND_TAGS, CATEGORY_TAGS, NO_KIND, Part
from tabularium.validations.release_spec.measures.kinds import TAGGED
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.problems import Path, choose, listed, nearest, quoted, shown
from tabularium.validations.release_spec.scalars import NEEDS_QUOTES
from tabularium.validations.release_spec.source import SOURCES
from tabularium.validations.release_spec.targets import TARGETS
from tabularium.validations.release_spec.yaml_lines import Document

_QUOTED = re.compile("'([^']*)'")
_KINDS: dict[str, type[Part]] = {**TAGGED, **SOURCES, **COLUMNS, **TARGETS}
_TAGS = {*BOUND_TAGS, *CATEGORY_TAGS, *_KINDS}
_MAPPINGS = ("model_type", "model_attributes_type", "dict_type")


def explain(error: ValidationError, model: type[BaseModel], document: Document) -> None:
    """Add every error of ``model`` to the document's problems, except where the YAML itself was at fault."""
    errors = error.errors(include_url=False)
    found = [(tuple(part for part in e["loc"] if part not in _TAGS), e) for e in errors]
    keys = {loc: _known_keys(e["loc"][:-1], model) for loc, e in found if e["type"] == "extra_forbidden"}
    meant = {(*loc[:-1], nearest(str(loc[-1]), known)) for loc, known in keys.items()}
    for loc, entry in found:
        path = path_of(loc)
        if document.is_tainted(path) or (entry["type"] == "missing" and loc in meant):
            continue
        if entry["type"] == NO_KIND and any(each[: len(path)] == path for each in document.tainted):
            continue  # the key is there, and its value does not read
        if loc in keys:
            what, hint = _key_of_another(entry["loc"], model) or _unknown_key(path, keys[loc])
        else:
            what, hint = _words(entry, path, document)
            if entry["type"] == "missing":
                hint += _example(entry["loc"], model)
        document.add(path, what, hint)


#: What other programs call a key -> the key, and under what it stands where that is one place alone.
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
    """Return what is said of a key that other kinds of the same thing have; None where none has it."""
    if len(loc) < 2 or loc[-2] not in _KINDS:
        return None
    name, kind = str(loc[-1]), _KINDS[str(loc[-2])]
    having = [each for each in _models(_follow(loc[:-2], model)) if name in keys_of(each)]
    if not having:
        return None
    if issubclass(kind, Measure):
        measures = [each for each in having if issubclass(each, Measure)]
        alike = next((each.written_with for each in measures if each.keys == kind.keys), None)
        kinds = listed(list(dict.fromkeys(key for each in measures for key in each.keys)))
        hint = f"remove it; it is for {kinds}" if alike is None else f"remove it, or write {alike}"
        return f"a {' or '.join(kind.keys)} has no {quoted(name)}", hint
    other = next(each.written_as for each in having if issubclass(each, Part))
    hint = f"keep {kind.written_as} or {name}" if other == name else f"remove it, or write {other}"
    return f"{kind.kind_name} has no {quoted(name)}", hint


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys that a mapping in a file may have."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _example(loc: Path, model: type[BaseModel]) -> str:
    """Return how a key that is missing is written for instance, where its field says so."""
    for owner in _models(_follow(loc[:-1], model)):
        for name, field in owner.model_fields.items():
            if (field.alias or name) == loc[-1] and field.examples:
                return f", for instance {loc[-1]}: {field.examples[0]}"
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
    """Return what is wrong and how to mend it."""
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
    elif kind in _MAPPINGS:
        words = "must hold `key: value` lines", f"write {key}and under it, further to the right, its keys"
    else:
        words = "is not what is expected here", "see docs/reference/spec/index.md for this field"
    return words


def _known_keys(loc: Path, model: Any) -> list[str]:
    """Return the keys that the mapping at ``loc`` may have, following the models' annotations."""
    return list(dict.fromkeys(key for each in _models(_follow(loc, model)) for key in keys_of(each)))


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
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
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
