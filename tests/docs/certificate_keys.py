"""Lists of the keys of a certificate, made from the model that writes and reads certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tabularium.validations.certificate import tables
from tabularium.validations.certificate.certificate import Certificate
from tests.docs.pages import item

MODELS: dict[str, type[BaseModel]] = {
    "Certificate": Certificate,
    "Table": tables.Table,
    "Margins": tables.Margins,
    "Measure": tables.Measure,
}
LINKS = {
    "outside_the_guarantee": "../explanation/outside-the-guarantee.md",
    "lookups": "spec/lookups.md",
    "tuning": "spec/targets.md#tuning",
    "tables": "#tables-of-a-certificate",
    "margins": "#margins-of-a-table",
    "measures": "#measures-of-a-table",
    "shown": "../explanation/margins-of-error.md#what-is-shown-of-nearly-empty-cells",
    "prior": "../how-to/borrow-strength.md#draw-a-table-towards-an-earlier-release",
    "above": "../how-to/borrow-strength.md#draw-small-areas-towards-the-level-above",
}
"""Key -> the page that says more about it."""


def keys(argument: str) -> str:
    """Return the list of the keys of a model.

    With ``below`` each has the keys right below it that its text does not name, unless these have a list of
    their own; with ``explained`` also what they are. ``-key`` leaves out a key that the page describes itself.
    """
    name, *words = argument.split()
    left_out = {word.removeprefix("-") for word in words if word.startswith("-")}
    more = next((word for word in words if not word.startswith("-")), "")
    fields = dict(_fields(MODELS[name]))
    if unknown := left_out - set(fields):
        raise KeyError(f"{name} has no {sorted(unknown)}")
    return "\n".join(_item(key, field, more) for key, field in fields.items() if key not in left_out)


def _item(key: str, field: FieldInfo, more: str) -> str:
    below = _model(field.annotation)
    called = f"[`{key}`]({LINKS[key]})" if key in LINKS else f"`{key}`"
    text = field.description or (below.__doc__ or "" if below else "")
    text = " ".join(text.replace("``", "`").split()).removesuffix(".") + "."
    if more and below and below not in MODELS.values():
        names = [each for each in _names(below, more == "explained") if each not in text]
        text += f" Keys: {', '.join(names)}." if names else ""
    return item(f"{called}: {text}")


def _names(model: type[BaseModel], explained: bool) -> Iterator[str]:
    for key, field in _fields(model):
        about = field.description if explained else None
        yield f"`{key}` ({about[0].lower()}{about[1:].rstrip('.')})" if about else f"`{key}`"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        alias = field.serialization_alias or field.alias or name
        yield alias, field


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a type is, or is a list or mapping of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model(each))), None)


MAKERS: dict[str, Callable[[str], str]] = {"certificate-keys": keys}
