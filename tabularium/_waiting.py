"""What waits for an officer: runs whose spec nobody has approved, and drafts to be reviewed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tabularium.mechanisms.errors import TabulariumError

if TYPE_CHECKING:
    from tabularium.tasks.runtime.home import Home


@dataclass(frozen=True)
class Waits:
    """One thing that waits.

    Attributes
    ----------
    kind
        ``approval`` of a spec, or ``review`` of a draft.
    account, amount
        What pays, and what it costs; empty and None of a spec that cannot be read here.
    digest
        Of the spec, or of the draft.
    since
        UTC.
    command
        What an officer types.
    """

    kind: Literal["approval", "review"]
    account: str
    product: str
    period: str
    amount: Fraction | None
    digest: str
    since: datetime
    command: str


def approvals(home: Home) -> Iterator[Waits]:
    """Go through the runs that wait for an approval; none where no Prefect API is known, or it is away."""
    from tabularium.flows.operations.waiting import runs_to_approve

    for run in runs_to_approve(home):
        account, amount = "", None
        with suppress(TabulariumError, OSError):
            from tabularium.validations.spec.load import load_spec

            loaded = load_spec(Path(run.spec), period=run.period or None, revises=run.revises)
            if loaded.digest == run.spec_digest:
                account, amount = loaded.spec.dataset, loaded.spec.privacy.budget
        words = ["tabularium", "ledger", "approve", run.spec]
        words += ["--period", run.period] if run.period else []
        words += ["--revises", run.revises] if run.revises else []
        command = f"{shlex.join(words)}{home.option} --key FILE"
        yield Waits("approval", account, run.product, run.period, amount, run.spec_digest, run.since, command)
