"""Lists of the fields of a spec, made from its models; descriptions are those of ``release.schema.json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tabularium.validations.release_spec import (
    columns,
    kinds,
    model,
    privacy,
    publication,
    source,
    tables,
    targets,
)
from tabularium.validations.release_spec.measures import measure
from tabularium.validations.release_spec.measures.kinds import KINDS
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.docs.pages import item

MODELS: dict[str, type[BaseModel]] = {
    name: value
    for module in (columns, kinds, model, privacy, publication, source, tables, targets, measure)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, kinds.Part)
} | {kind.__name__: kind for kind in KINDS}
LINKS = {
    "SpecFile.revises": "../../how-to/publish-a-revision.md",
    "SpecFile.measurements_of": "../../how-to/publish-a-revision.md#a-mistake-after-the-noise",
    "SpecFile.size": "#size",
    "SpecFile.source": "source.md",
    "SpecFile.lookups": "lookups.md",
    "SpecFile.privacy": "privacy.md",
    "SpecFile.columns": "columns.md",
    "SpecFile.tables": "tables.md",
    "SpecFile.histograms": "histograms.md",
    "SpecFile.invariants": "invariants.md",
    "SpecFile.figures": "measures.md#figures",
    "SpecFile.impossible": "impossible.md",
    "SpecFile.rules": "rules.md",
    "SpecFile.targets": "targets.md",
    "SpecFile.tuning": "targets.md#tuning",
    "SpecFile.postprocessing": "postprocessing.md",
    "SpecFile.about": "publication.md#about",
    "SpecFile.publication": "publication.md",
    "SpecFile.workspace": "publication.md#workspace",
    "FileSource.limits": "#limits",
    "CategoryColumn.from": "#columns-from-columns",
    "CategoryColumn.date": "#dates",
    "HierarchyColumn.hierarchy": "levels.md#code-lists",
    "Case.when": "../query-language.md#the-language",
    "TableEntry.where": "#where",
    "TableEntry.size": "index.md#size",
    "TableEntry.levels": "levels.md",
    "TableEntry.mechanism": "mechanisms.md",
    "TableEntry.per": "#per",
    "TableEntry.margin_share": "#margin_share",
    "TableEntry.prior": "#prior",
    "TableEntry.measures": "measures.md",
    "Histogram.parameters": "../mechanisms/privhist.md",
    "Sum.from": "#bounds-by-group",
    "Publication.formats": "#formats",
    "Publication.sdmx": "#sdmx",
    "Publication.quality": "#quality",
    "Publication.review": "#review",
    "DistinctCount.distinct": "#distinct-counts",
    "Rate.rate": "#rates",
}
"""Model and field -> the page that says more about it."""


def fields(names: str) -> str:
    """Return the list of the fields of models, as ``FileSource+SparkFiles``; of several, of any of them.

    ``LookUp: public unit`` shows these fields in this order, ``Limits limits.`` puts a word before each name.
    """
    names, _, only = names.partition(": ")
    names, _, before = names.partition(" ")
    titles = names.split("+")
    every: dict[str, tuple[str, FieldInfo]] = {}
    for title in titles:
        for name, field in MODELS[title].model_fields.items():
            every.setdefault(field.alias or name, (title, field))
    order = only.split() or sorted(every, key=_TOP.index if titles == ["SpecFile"] else lambda _: 0)
    return "\n".join(_item(every[name][0], name, every[name][1], titles, before) for name in order)


_TOP = (
    *("product", "dataset", "period", "revises", "measurements_of", "about", "size", "source", "lookups"),
    *("privacy", "columns", "tables", "histograms", "invariants", "impossible", "figures", "rules"),
    *("targets", "tuning", "postprocessing", "publication", "workspace"),
)


def _item(title: str, name: str, field: FieldInfo, titles: Sequence[str], before: str = "") -> str:
    called = f"`{before}{name}`"
    if link := LINKS.get(f"{title}.{name}"):
        called = f"[{called}]({link})"
    every = [_field(MODELS[each], name) for each in titles]
    found = {_default(each) for each in every if each is not None}
    default = found.pop() if len(found) == 1 else ""
    if default == "required" and None in every:  # of one kind, where there are others
        default = ""
    ends = "" if not default else " Required." if default == "required" else f" Default: {default}."
    return item(f"{called}: {_text(field.description or '')}{ends}")


def _field(model: type[BaseModel], name: str) -> FieldInfo | None:
    return next((each for key, each in model.model_fields.items() if (each.alias or key) == name), None)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value == publication.Measurements():
        value = "publish"
    if value is None or value in ({}, ()) or isinstance(value, BaseModel):
        return ""
    return f"`{_written(value)}`"


def _written(value: object) -> str:
    """Return a value as it is written in YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_written(each) for each in value)}]"
    if isinstance(value, Fraction):
        return str(value) if value.denominator == 1 else f'"{float(value):g}"'
    return {",": '","', '"': "'\"'", "": '""'}.get(str(value), str(value))


def _text(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")


def measure_fields(_: str) -> str:
    """Return the list of the fields of measures: what makes each kind first."""
    keys = [key for kind in KINDS for key in kind.keys]
    names = [field.alias or name for kind in KINDS for name, field in kind.model_fields.items()]
    order = " ".join(dict.fromkeys([*keys, *names]))
    return fields(f"{'+'.join(kind.__name__ for kind in KINDS)}: {order}")


def rules(_: str) -> str:
    """Return the table of the kinds of rule."""
    rows = []
    for rule in get_args(get_args(privacy.Rule)[0]):
        own = [name for name in rule.model_fields if name not in ("rule", "severity", "noisy")]
        (called,) = get_args(rule.model_fields["rule"].annotation)
        holds = _text((rule.__doc__ or "").strip()).rstrip(".")
        rows.append(f"| `{called}` | {', '.join(f'`{name}`' for name in own)} | {holds}. |")
    return "\n".join(["| rule | its fields | holds when |", "|---|---|---|", *rows])


def formats(_: str) -> str:
    """Return the table of the formats of tables."""
    rows = [f"| `{name}` | {each.summary} |" for name, each in FORMATS.items()]
    return "\n".join(["| format | files |", "|---|---|", *rows])


MAKERS: dict[str, Callable[[str], str]] = {
    "spec-fields": fields,
    "measure-fields": measure_fields,
    "rule-kinds": rules,
    "table-formats": formats,
}
