"""The spec of a rehearsal: the same tables at the same price, with made-up records as their source."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabularium.tasks.publish.certificate.sections import validation
from tabularium.tasks.publish.guarantee import privacy_section
from tabularium.validations.certificate import Certificate, Fact
from tabularium.validations.release_spec.exact_facts import facts_of_release, neighbours
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.scalars import MOST_CHARACTERS
from tabularium.validations.release_spec.source import located
from tabularium.validations.release_spec.tables import ABOVE
from tabularium.validations.release_spec.yaml_lines import read_yaml

STAMP = "REHEARSAL of made-up records"
_WRITTEN = ("unit", "key", "from")  # of a private look-up, what a made-up file of it keeps


def write_rehearsed(loaded: Loaded, target: Path, *, source: Path, lookups: Mapping[str, Path]) -> None:
    """Write the spec of a rehearsal of a spec.

    The title of everything that is published says that it is a rehearsal. Rules warn where they would stop,
    for made-up records keep few of them; invariants that the records contradict are published with the
    conflict; no draft waits for an officer; and nothing is drawn towards an earlier release.

    Parameters
    ----------
    target
        The file, beside which its releases go into ``releases``.
    source, lookups
        The made-up records, and those of every private look-up.
    """
    data: dict[str, Any] = copy.deepcopy(read_yaml(loaded.path).data)
    data["period"] = loaded.spec.period
    data["source"] = {"path": str(source), "max_rejected": "100%"}
    for name, look in data.get("lookups", {}).items():
        if name in lookups:
            written = {key: value for key, value in look.items() if key in _WRITTEN}
            data["lookups"][name] = {**written, "path": str(lookups[name])}
        else:
            look["path"] = located(look["path"], loaded.spec.period, loaded.folder)
    for column in data["columns"].values():
        _make_absolute(column, "hierarchy", loaded.folder)
        _make_absolute(column, "categories", loaded.folder)
    for numbers in (*data.get("invariants", ()), *data.get("figures", ())):
        _make_absolute(numbers, "values", loaded.folder)
    for each in data.get("invariants", ()):
        each["on_conflict"] = "publish"
    for rule in data.get("rules", ()):
        rule["severity"] = "warn"
    for each in (*data["tables"], *data.get("histograms", ())):
        each["title"] = stamped(each.get("title", each["name"]))
        if each.get("prior", ABOVE) != ABOVE:
            del each["prior"]
    about = data.setdefault("about", {})
    about["title"] = stamped(about.get("title", data["product"]))
    publication = data.setdefault("publication", {})
    publication["folder"] = "releases"
    publication.pop("review", None)
    for name in ("revises", "measurements_of", "targets", "tuning", "workspace"):
        data.pop(name, None)
    target.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")


def stamped(title: str) -> str:
    """Return the title of something that is rehearsed, cut where it would be too long for a title."""
    text = f"{STAMP}: {title}"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def as_declared(told: Certificate, loaded: Loaded) -> Certificate:
    """Return the certificate of a rehearsal with what a release would say of rules and of the guarantee.

    A rehearsal stops at no rule. A release does, and so its existence says exactly that each rule held, which
    no budget covers.
    """
    spec, ledger = loaded.spec, told.ledger
    tries = [each.attempts for each in ledger.tally_charges]
    facts = facts_of_release(spec, ledger.attempts, tries)
    privacy = privacy_section(
        spec,
        neighbours(spec, loaded.domains),
        [draw.event for draw in told.transcript],
        [each.delta for each in told.privacy.epsilon_delta or ()],
        population=told.privacy.unit.population,
        conversion=told.privacy.conversion,
    )
    outside = tuple(Fact(kind=each.kind, name=each.name, what=each.what) for each in facts)
    return told.model_copy(
        update={
            "outside_the_guarantee": outside,
            "privacy": privacy,
            "validation": validation(spec, len(tries)),
        }
    )


def _make_absolute(part: dict[str, Any], key: str, folder: Path) -> None:
    if isinstance(part.get(key), str):
        part[key] = str(folder / part[key])
