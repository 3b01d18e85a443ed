"""What Prefect's UI shows of a published release; all of it stands in the published folder and the ledger."""

from __future__ import annotations

from flows.release_chain import Outcome
from tasks.runtime.home import Home


def show_release(outcome: Outcome, home: Home) -> None:
    """Make the artifacts of the flow run that asks: what was published, its tables, what is left, where."""
