"""What waits for an officer: runs whose spec nobody has approved, and drafts to be reviewed."""

from __future__ import annotations

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
    officers, signed
        How many different officers must sign, and who has.
    """

    kind: Literal["approval", "review"]
    account: str
    product: str
    period: str
    amount: Fraction | None
    digest: str
    since: datetime
    command: str
    officers: int = 1
    signed: tuple[str, ...] = ()


def approvals(home: Home) -> Iterator[Waits]:
    """Go through the runs that wait for an approval; none where no Prefect API is known, or it is away."""
    from tabularium.flows.operations.waiting import approving, runs_to_approve
    from tabularium.validations.spec.load import load_spec

    for run in runs_to_approve(home):
        account, amount = "", None
        asked = run.period or None, run.revises, run.measurements_of
        with suppress(TabulariumError, OSError):
            period, revises, measurements_of = asked
            loaded = load_spec(
                Path(run.spec), period=period, revises=revises, measurements_of=measurements_of
            )
            account, amount = loaded.spec.dataset, loaded.spec.privacy.budget
            if loaded.digest != run.spec_digest:  # the file was changed since: this run waits for what it was
                amount = None
        command = approving(run.spec, *asked, str(home.path))
        if amount is None:
            command = (
                f"tabularium ledger approve {run.spec_digest} --account {account or 'ACCOUNT'} --key FILE"
                f"{home.option}  # {run.spec} has changed since, or cannot be read here"
            )
        yield Waits("approval", account, run.product, run.period, amount, run.spec_digest, run.since, command)
