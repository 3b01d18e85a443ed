"""The kinds of measure: one class in one file each, distinguished by their keys."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator, Discriminator, Tag

from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.problems import listed
from tabularium.validations.release_spec.scalars import refuse

_PLACES = (
    "sums.Sum",
    "means.Mean",
    "quantiles.Quantile",
    "chosen_quantiles.ChosenQuantile",
    "rates.Rate",
    "rates.RateOver",
    "variances.Variance",
    "variances.StandardDeviation",
    "distinct_counts.DistinctCount",
)


def _class_at(path: str) -> type[Measure]:
    module, _, name = path.partition(".")
    cls: type[Measure] = getattr(import_module(f"{__package__}.{module}"), name)
    return cls


KINDS: tuple[type[Measure], ...] = tuple(map(_class_at, _PLACES))
KEYS: tuple[str, ...] = tuple(dict.fromkeys(key for kind in KINDS for key in kind.keys))
"""The keys by which kinds are distinguished, in the order of the reference."""
TAGGED: dict[str, type[Measure]] = {f"[{kind.__name__}]": kind for kind in KINDS}
"""Kinds by the tags by which pydantic tells them apart; no key of a file."""


def _one_kind(written: object) -> object:
    if not isinstance(written, dict | Measure):
        raise refuse("must hold `key: value` lines", f"write for instance {KEYS[0]}: income, and its bounds")
    if isinstance(written, dict):
        keys = [key for key in KEYS if written.get(key) is not None]
        if len(keys) != 1:
            what = f"has {listed(keys)}" if keys else f"has none of {listed(KEYS, len(KEYS))}"
            raise refuse(what, f"write one of them with the column it is of, as in {KEYS[0]}: income")
    return written


def _tag_of(written: Any) -> str | None:
    reading = (
        tag
        for tag, kind in TAGGED.items()
        if (kind.reads(written) if isinstance(written, dict) else isinstance(written, kind))
    )
    return next(reading, None)


if TYPE_CHECKING:
    AnyMeasure = Measure
else:
    AnyMeasure = Annotated[
        Union[tuple(Annotated[kind, Tag(tag)] for tag, kind in TAGGED.items())],  # noqa: UP007 - made here
        Discriminator(_tag_of),
        BeforeValidator(_one_kind),
    ]
"""A measure of any kind, as it is written."""
