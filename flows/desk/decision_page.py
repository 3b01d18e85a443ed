"""A spec to be approved, further attempts to be allowed, and what was decided."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import tabularium
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.safety import Asked, Elsewhere, Page
from tabularium.flows.desk.signing import decide
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.targets import in_figures

_SPECS = (".yaml", ".yml")


def look(desk: Desk, asked: Asked) -> Page:
    """Show what will be published, at what price, and what is left."""
    decision = _decision(desk, asked)
    return Page(
        "decision.html.jinja",
        {
            "decision": decision,
            "tables": _tables(decision),
            "bar_shares": _bar(decision),
            "changes": [(field, *map(_written, values)) for field, *values in decision.changes],
            "confidence": float(decision.spec._loaded.spec.publication.confidence),
            "command": _command(desk, asked, decision),
            "asked": _named(asked),
            "here": address_of(asked),
            "review": decision.spec._loaded.spec.publication.review,
            "next": _next(decision),
        },
    )


def approve(desk: Desk, asked: Asked) -> Elsewhere | Page:
    """Approve the spec that was looked at."""
    decision = _decision(desk, asked)
    if decision.spec_digest != asked.value("digest"):
        raise InputError(
            "the spec has changed since it was looked at",
            where=asked.value("spec"),
            hint="nothing was signed; look at it again",
        )
    reason, unpaid = asked.value("reason") or None, bool(asked.value("even_if_unpaid"))
    further = f"; {decision.retries}" if decision.retries else ""
    says = [
        f"Spec {decision.spec_digest}",
        f"It may cost at most {decision.symbol} = {decision.budget}{further}.",
        *([f"Remark: {reason}"] if reason else []),
        _next(decision),
    ]
    return decide(
        *(desk, asked, lambda one: one.approve(decision, reason=reason, even_if_unpaid=unpaid)),
        title=f"Approve {decision.headline}",
        says=says if decision.can_be_paid else [*says, "The account cannot pay for it now."],
        about=f"{decision.product}, {decision.period}",
        back=address_of(asked),
        address="/approve",
    )


def attempts(desk: Desk, asked: Asked) -> Page:
    """Show a release whose attempts are used up."""
    release = asked.path["release"]
    with desk.books() as books:
        charged = books.charged(release)
    if charged.charge.state != "drawing":
        raise InputError(
            f"is not being drawn: {charged.standing}", where=f"release {release}", hint="see its account"
        )
    command = f"tabularium ledger allow-attempts {release} --reason WHY --key FILE{desk.option}"
    return Page("attempts.html.jinja", {"charge": charged.charge, "command": command})


def allow(desk: Desk, asked: Asked) -> Elsewhere | Page:
    """Let a release be drawn some times more."""
    release, reason = asked.path["release"], asked.value("reason")
    with desk.books() as books:
        charge = books.charged(release).charge
    return decide(
        *(desk, asked, lambda one: one.allow_attempts(release, reason=reason)),
        title=f"Let {charge.product}, {charge.period} be drawn some times more",
        says=[
            f"Release {release}",
            "If what ends its runs hangs on the noise, each attempt can cost what the release cost: "
            "say so only once the cause is found.",
        ],
        about=f"{charge.product}, {charge.period}",
        back=f"/attempts/{release}",
        address=f"/attempts/{release}",
    )


def decided(desk: Desk, asked: Asked) -> Page:
    """Show what came of a decision."""
    return Page("decided.html.jinja", {"kept": desk.kept(asked.path["number"])})


def unlock(desk: Desk, asked: Asked) -> Elsewhere:
    """Open the key with the passphrase of a form."""
    if desk.key is not None:
        desk.key.unlock((asked.form or {}).get("passphrase", ""))
    return Elsewhere(own_address(asked.value("back")))


def lock(desk: Desk, _asked: Asked) -> Elsewhere:
    """Close the key."""
    if desk.key is not None:
        desk.key.close()
    return Elsewhere("/")


def own_address(address: str) -> str:
    """Return an address of the desk as a form names it; the first page for any other."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"


def _next(decision: tabularium.Decision) -> str:
    """Say what happens once a spec is approved."""
    when = "Once all have approved it" if decision.officers > 1 else "Once it is approved"
    if decision.spec._loaded.spec.publication.review is None:
        return f"{when}, the next run of it pays and publishes it."
    return (
        f"{when}, the next run of it pays; the draft then waits here, and is published when it is accepted."
    )


def _named(asked: Asked) -> dict[str, str]:
    """Return how a spec is approved, as addresses and forms name it."""
    names = ("spec", "period", "revises", "measurements_of")
    return {name: value for name in names if (value := asked.value(name))}


def _decision(desk: Desk, asked: Asked) -> tabularium.Decision:
    named = _named(asked)
    if "spec" not in named:
        raise InputError("names no spec", where="spec", hint="give the path of a YAML file")
    path, there = Path(named.pop("spec")), False
    if path.suffix not in _SPECS:  # what is wrong with a file is quoted from it: no other file is read
        raise InputError("is no YAML file by its name", where=str(path), hint="give one that ends in .yaml")
    with suppress(OSError):  # a name that is too long, a folder that may not be read
        there = path.is_file()
    if not there:
        raise InputError(
            "no such spec on this machine", where=str(path), hint="copy it here, or approve it where it is"
        )
    with desk.books() as books:
        return books.decision(path, **named, folders=desk.folders)


def address_of(asked: Asked) -> str:
    """Return the address of the page that shows the spec."""
    return f"/approve?{urlencode(_named(asked))}"


def _command(desk: Desk, asked: Asked, decision: tabularium.Decision) -> str:
    from tabularium.flows.operations.waiting import approving
    from tabularium.tasks.runtime.run import Request

    named = _named(asked)
    request = Request(
        *(named["spec"], None, decision.period, str(desk.home), named.get("revises")),
        measurements_of=named.get("measurements_of"),
    )
    return approving(request)


def _tables(decision: tabularium.Decision) -> list[dict[str, Any]]:
    """Return every table with its universe, and each of its numbers with levels and margins."""
    numbers: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for expectation in decision.expected:
        typical, small = expectation.in_cells or (None, None)
        margin = expectation.of_noise if typical is None else typical.margin
        numbers[expectation.table].append(
            {
                "name": expectation.name + (f" ({expectation.group})" if expectation.group else ""),
                "level": expectation.level or "all cells",
                "cells": expectation.cells,
                "typical": None if typical is None else _records(typical.records),
                "margin": _margin(margin, expectation.at_least),
                "small": None if small is None else _records(small.records),
                "in_small": None if small is None else _margin(small.margin, expectation.at_least),
                "depends": expectation.number is None,
            }
        )
    return [
        {
            "name": table.name,
            "dimensions": " × ".join(table.dimensions),
            "where": table.where,
            "numbers": numbers[table.name],
            "has_sizes": any(row["small"] for row in numbers[table.name]),
        }
        for table in decision.spec._loaded.spec.tables
    ]


def _records(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else in_figures(number)


def _margin(margin: float | None, at_least: bool) -> str | None:
    if margin is None or margin == float("inf"):
        return None
    return f"± {in_figures(margin)}{' or more' if at_least else ''}"


def _written(value: Any) -> str:
    """Return a value of a spec as people write it: letters of every script, and ``<`` as it is."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _bar(decision: tabularium.Decision) -> dict[str, Any]:
    """Return the parts of the cap, each as a share of it: used before, this, left after."""
    cap, before = decision.cap, decision.cap - decision.left
    this = min(decision.cost, decision.left)
    parts = {"used": before, "this": this, "after": cap - before - this}
    return {name: float(part / cap) if cap else 0.0 for name, part in parts.items()}
