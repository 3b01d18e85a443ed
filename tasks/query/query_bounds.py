"""What could be promised of a query before anything was drawn: errors (Xiao et al. 2010) and privacy."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

from tabularium.mechanisms.registry import MECHANISMS
from tabularium.tasks.query.usefulness import posterior_bounds, usefulness

if TYPE_CHECKING:
    from tabularium.mechanisms.queries import Answer
    from tabularium.validations.certificate import Certificate

PRIOR = 0.1


def promised_error(certificate: Certificate, answer: Answer) -> dict[str, Any]:
    """Return errors of count queries that are not exceeded at the answer's level, over the noise.

    They are those of the finest measurement of the answer's table alone, which must be discrete Laplace noise
    on every cell; what other levels add is left out.
    """
    events = [draw.event for draw in certificate.transcript]
    own = [
        event
        for event in events
        if event.primitive == "discrete_laplace" and event.purpose.split("/")[0] == answer.table
    ]
    table = certificate.tables[answer.table]
    levels = table.noise_variance
    mechanism = MECHANISMS.get(table.mechanism)
    plain = (
        mechanism is not None
        and mechanism.releases_noisy_cells
        and all(event.sensitivity == 1 and event.width == 1 and not event.branches for event in own)
    )
    if not levels or len(own) != len(levels) or not plain:
        return {"none": "the cells of this table are not counts plus discrete Laplace noise"}
    finest = max(own, key=lambda event: prod(event.shape))
    cells = prod(finest.shape)
    epsilon = float(finest.loss)
    found = usefulness(epsilon, cells, min(answer.cells, cells), 1 - answer.level)
    return {
        "probability": answer.level,
        "epsilon": str(finest.loss),
        "table_cells": cells,
        "query_cells": min(answer.cells, cells),
        "any_query_paper": found.paper,
        "this_query_paper": found.paper_cells,
        "every_query_at_once": found.every_query,
        "this_query": found.one_query,
    }


def promised_privacy(certificate: Certificate) -> dict[str, Any]:
    """Return how sure anyone may be of a unit after the release who gave it 10 % before; pure ε only."""
    privacy = certificate.privacy
    if privacy.epsilon is None or privacy.neighbours.change != "add-remove":
        return {
            "none": "such a bound exists for pure ε where units can be added and removed; the certificate "
            "says what holds here"
        }
    found = posterior_bounds(PRIOR, float(privacy.epsilon))
    return {"prior": PRIOR, "epsilon": str(privacy.epsilon), **found}


def in_words(error: dict[str, Any], privacy: dict[str, Any]) -> list[str]:
    """Return both as sentences."""
    return [
        f"Usefulness: {error['none']}." if "none" in error else _of_errors(error),
        f"Privacy: {privacy['none']}." if "none" in privacy else _of_beliefs(privacy),
    ]


def _of_errors(found: dict[str, Any]) -> str:
    asked = "1 cell" if found["query_cells"] == 1 else f"{found['query_cells']:,} cells"
    chance, together = f"{100 * found['probability']:g} %", f"{found['every_query_at_once']:,}"
    return (
        f"Usefulness, before anything was drawn, of {found['table_cells']:,} cells measured at "
        f"ε = {found['epsilon']}: with probability {chance} a count of {asked} errs by at most "
        f"{found['this_query']:,}, and all counts at once by at most {together}. Xiao et al. 2010, "
        f"Theorem 4.2, promises {ceil(found['any_query_paper']):,} for any count, "
        f"{ceil(found['this_query_paper']):,} for {asked}."
    )


def _of_beliefs(found: dict[str, Any]) -> str:
    prior, presence, value = (_percent(found[name]) for name in ("prior", "presence", "value"))
    return (
        f"Privacy, ε = {found['epsilon']}: who was {prior} sure that somebody is in the data is at most "
        f"{presence} sure afterwards; of a value of somebody known to be in it, at most {value}. "
        f"(Xiao et al. 2010, Theorem 3.3, states {_percent(found['paper'])}, which in tables of counts "
        "holds for presence only.)"
    )


def _percent(probability: float) -> str:
    """Return a tenth of a percent, rounded up: it follows "at most"."""
    return f"{ceil(1000 * probability - 1e-9) / 10:g} %"
