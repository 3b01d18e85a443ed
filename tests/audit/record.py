"""Run the audits of the registered mechanisms and record what they found: ``python -m tests.audit.record``.

Certificates repeat the figures of the mechanisms that they use, from
``tasks/publish/certificate/audits.json``. Each mechanism is run with the first of its sets of parameters in
``tests/audit/cases.py``, under each definition it knows:

*replayed*: hand-made neighbours, one record apart, of every shape that the mechanism is audited with; the
largest share of the budget that any pair lost, and that of the worst pair that is known by hand.
*shown*: the lower confidence bound on the loss from outputs alone (``tests/audit/estimates.py``).

What a table does not name by itself, measures and mechanisms per region, has pairs of its own in
``UNCHOSEN``.

A name after the command records that mechanism alone. It takes some minutes for all of them.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel.replay.replay_audit import Audit
from tabularium.mechanisms.histograms.bounded_sums import BoundedSums
from tabularium.mechanisms.histograms.per_region import PerRegion
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.tasks.publish.certificate import software
from tests.audit.cases import (
    CASES,
    MEAN,
    ONE,
    OTHER,
    REGIONS,
    SUM,
    WEIGHTS,
    mechanism_definitions,
    with_records,
)
from tests.audit.estimates import (
    BUDGET,
    FALSE_ALARM,
    FEWER_RUNS,
    ONE_CELL,
    RUNS,
    loss_from_outputs,
    must_show,
)
from tests.audit.replays import BUDGETS, FORCES, edge_pairs, judge

FILE = Path(software.__file__).with_name("audits.json")
EVERY = 8  # of the hand-made pairs; `make audit` puts the mechanism through all of them
HALF = BUDGET["zcdp"]
Pair = tuple[Any, Any]
#: Mechanism -> how it is built, and arrays that one record changes by as much as is declared.
UNCHOSEN: dict[str, tuple[Mechanism, list[Pair]]] = {
    "bounded_sums": (BoundedSums(12), [SUM, MEAN, WEIGHTS]),
    "per_region": (PerRegion("ahp"), [(REGIONS, with_records((2, 3))), (REGIONS, with_records((0, 0)))]),
}
#: What is told apart by its outputs.
SHOWN: dict[str, Pair] = {"bounded_sums": ([20], [32]), "per_region": (ONE, OTHER)}


def replayed(name: str, definition: Definition) -> dict[str, Any]:
    """Replay pairs of neighbours; raise where one loses more than was paid."""
    case = CASES[name]
    mechanism = build(name, **case.parameters[0])
    shares = []
    with Audit(mechanism) as processes:
        for number, (counts, neighbour) in list(enumerate(edge_pairs(case)))[::EVERY]:
            budget, force = BUDGETS[number % len(BUDGETS)], list(FORCES.values())[number % len(FORCES)]
            found = judge(
                *(mechanism, counts, neighbour),
                **{"budget": budget, "definition": definition, "force": force, "seed": number},
                processes=processes,
            )
            shares.append(found.loss / float(budget))
        one, other = (np.asarray(counts) for counts in case.worst)
        for pair in ((one, other), (other, one)):
            found = judge(
                *(mechanism, *pair),
                **{"budget": HALF, "definition": definition, "force": case.worst_force},
                processes=processes,
            )
            shares.append(found.loss / float(HALF))
    return _shares(shares, shares[-2:])


def _shares(shares: list[float], worst: list[float]) -> dict[str, Any]:
    return {
        "pairs": len(shares),
        "largest_share": round(max(shares), 6),
        "worst_pair": round(max(worst), 6),
    }


def replayed_measures(mechanism: Mechanism, pairs: list[Pair], definition: Definition) -> dict[str, Any]:
    """Replay arrays that one record changes by as much as is declared, both ways, at several budgets."""
    shares = []
    with Audit(mechanism) as processes:
        for number, pair in enumerate(each for one, other in pairs for each in ((one, other), (other, one))):
            for budget in BUDGETS:
                one, other = pair
                found = judge(
                    mechanism,
                    one,
                    other,
                    budget=budget,
                    definition=definition,
                    seed=number,
                    processes=processes,
                )
                shares.append(found.loss / float(budget))
    return _shares(shares, shares)


def shown(name: str, definition: Definition) -> dict[str, Any]:
    """Bound the loss from outputs; raise where the bound is above what was paid."""
    case = CASES[name]
    mechanism = build(name, **case.parameters[0])
    pair, runs = (case.worst, RUNS) if must_show(name, definition) else (ONE_CELL, FEWER_RUNS)
    return bounded_by_outputs(mechanism, pair, definition, runs)


def bounded_by_outputs(mechanism: Mechanism, pair: Any, definition: Definition, runs: int) -> dict[str, Any]:
    """Bound the loss of one pair from outputs alone."""
    one, other = (np.asarray(counts) for counts in pair)
    found = loss_from_outputs(mechanism, one, other, BUDGET[definition], definition, runs=runs)
    assert found <= BUDGET[definition], (mechanism.name, definition, found)
    return {
        "runs": 4 * runs,
        "budget": str(BUDGET[definition]),
        "at_least": round(found, 6),
        "false_alarm": FALSE_ALARM,
    }


def audits(name: str, definition: Definition) -> tuple[Mechanism, dict[str, Any], dict[str, Any]]:
    """Return a mechanism as it was audited, and what replays and outputs showed."""
    if name not in UNCHOSEN:
        mechanism = build(name, **CASES[name].parameters[0])
        return mechanism, replayed(name, definition), shown(name, definition)
    mechanism, pairs = UNCHOSEN[name]
    told = bounded_by_outputs(mechanism, SHOWN[name], definition, RUNS)
    return mechanism, replayed_measures(mechanism, pairs, definition), told


def main() -> None:
    known = json.loads(FILE.read_bytes()) if FILE.exists() else {}
    asked = sys.argv[1:] or [*MECHANISMS, *UNCHOSEN]
    own = [(name, each) for name, (how, _) in UNCHOSEN.items() for each in how.definitions]
    for name, definition in (*mechanism_definitions(), *own):
        if name in asked:
            mechanism, replays, outputs = audits(name, definition)
            known.setdefault(name, {})[definition] = {
                "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
                "mechanisms": software.audited_code(),
                "parameters": mechanism.parameters(),
                "replayed": replays,
                "shown": outputs,
            }
            FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            print(
                name,
                definition,
                known[name][definition]["replayed"],
                known[name][definition]["shown"],
                flush=True,
            )


if __name__ == "__main__":
    main()
