"""A certificate that is whole and of no release: for what reads certificates and makes none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tabularium.validations import certificate as said
from tabularium.validations.certificate import Certificate
from tabularium.validations.release_spec.publication import About

DIGEST = "0" * 64
ONE = Fraction(1)


def made_up(**parts: Any) -> Certificate:
    """Return one with these parts."""
    whole: dict[str, Any] = {
        "format": 1,
        "release_id": "0" * 32,
        "product": "persons",
        "period": "2025",
        "revises": None,
        "dataset": "census",
        "about": About(),
        "created": "2025-01-01T00:00:00+00:00",
        "outside_the_guarantee": (said.Fact(kind="release", name="release", what="That there is one."),),
        "privacy": _privacy(),
        "approval": said.Approval(
            needed=False, account_asks_always=False, account_asks_for_exact_facts=False, approved=None
        ),
        "account": _account(),
        "allocation": (
            said.BudgetPart(
                **{"kind": "table", "name": "ages", "level": None, "share": ONE},
                **{"per_unit": ONE, "per_record": ONE, "of_it_for_margins": Fraction(0)},
            ),
        ),
        "composition": said.Composition(
            **{"rule": "sequential", "changed_records": 1, "parallel": (), "across_releases": "sequential"},
            words=(),
        ),
        "ledger": said.Charge(
            **{"account": "census", "amount": ONE, "rests_on": None, "definition": "pure", "attempts": 1},
            **{"tally_charges": (), "withheld": ()},
            head=said.Head(seq=3, hash=DIGEST, chain=DIGEST, mac=DIGEST),
        ),
        "measurements": said.Measurements(digest=DIGEST, withheld=None),
        "measured": (
            said.Measured(
                **{"name": "ages", "level": None, "purpose": "ages", "mechanism": "identity"},
                **{"parameters": {}, "per_record": ONE, "spent_per_record": ONE, "draws": ()},
            ),
        ),
        "audits": {},
        "tallies": (),
        "transcript": (
            said.Draw(
                **{"primitive": "discrete_laplace", "definition": "pure", "loss": ONE, "sensitivity": ONE},
                **{"scale": "1/1", "scale_squared": ONE, "shape": (1,), "width": ONE, "purpose": "ages"},
                branches=(),
            ),
        ),
        "spec": {},
        "spec_digest": DIGEST,
        "code_lists": {},
        "lookups": (),
        "domains": {},
        "validation": said.Validation(rules=(), max_rejected="0", max_rejected_charged="0"),
        "tuning": said.Tuning(data=(), words="None."),
        "invariants": (),
        "impossible": (),
        "tables": {},
        "agreement": {},
        "postprocessing": said.PostProcessing(version=1, steps=()),
        "confidence": Fraction(9, 10),
        "margins": {},
        "randomness": said.Randomness(
            **{"generator": "one", "seeded_by": "one", "predictable": False, "keys_kept": False},
            **{"arithmetic": "exact integers", "samplers": ()},
        ),
        "side_channels": (said.SideChannel(channel="one", considered="Yes."),),
        "security": said.Security(workspace_mode="0700", workspace_kept=False, words=()),
        "files": {},
        "software": {},
        "code": said.Code(
            **{"digest": DIGEST, "mechanisms": DIGEST, "commit": None},
            packages=said.Packages(digest=DIGEST, number=1),
        ),
    }
    return Certificate(**{**whole, **parts})


def _privacy() -> said.Privacy:
    return said.Privacy(
        definition="pure",
        unit=said.Unit(entity="person", population="the residents", column=None),
        relation="add-remove",
        max_contributions=1,
        conversion=said.Conversion(exact="epsilon", words="Exact."),
        epsilon=ONE,
        epsilon_per_record=ONE,
        neighbours=said.Neighbours(fixed=None, change="add-remove", units=1, epsilon=ONE),
        reading=("One.",),
    )


def _account() -> said.Account:
    return said.Account(
        **{"name": "census", "entity": "person", "population": "the residents", "relation": "add-remove"},
        **{"definition": "pure", "delta": None, "cap": ONE, "cap_per_period": None, "cap_per_product": None},
        reserved=said.Reserved(
            entry=2, at="2025-01-01T00:00:00Z", amount=ONE, left_before=ONE, left_after=Fraction(0)
        ),
        cumulative=said.Cumulative(used=ONE, charges=1, releases_before=0),
        words=(),
    )
