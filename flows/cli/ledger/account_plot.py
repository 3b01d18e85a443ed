"""A picture of an account: what was reserved and spent over time, under its cap."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tabularium.ledger import Ledger
from tabularium.ledger.amounts import from_text
from tabularium.mechanisms.errors import InputError

FORMATS = (".svg", ".png", ".pdf")
_MOST_POINTS = 2000  # more than the picture has dots


def plot_spending(ledger: Ledger, account: str, file: Path) -> None:
    """Draw the account's cap, what is used and what is spent, as steps over time.

    Raises
    ------
    UnknownAccount
        If there is no such account.
    InputError
        If the file cannot be written.
    """
    from matplotlib.dates import date2num
    from matplotlib.figure import Figure

    moments, used, spent, caps = _course(ledger, account)
    symbol = "ε" if ledger.account(account).definition == "pure" else "ρ"
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    times = [float(date2num(moment)) for moment in moments]
    axes.xaxis_date()
    axes.step(times, caps, where="post", color="#b3423a", linewidth=1.5, label="cap")
    axes.fill_between(times, used, spent, step="post", color="#9ec3e0", label="reserved")
    axes.fill_between(times, spent, step="post", color="#2b6ca3", label="spent")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(symbol)
    axes.set_title(f"{account}: budget over time")
    axes.legend(loc="upper left", frameon=False)
    axes.tick_params(axis="x", labelrotation=20)
    try:
        figure.savefig(file)
    except OSError as error:
        failure = InputError(
            f"cannot be written ({error.strerror})", where=str(file), mend="name another file"
        )
    else:
        return
    raise failure


def _course(ledger: Ledger, account: str) -> tuple[list[datetime], list[float], list[float], list[float]]:
    """Return times (UTC), what is used, what is spent, and the cap, one of each per change."""
    ledger.account(account)  # or say that there is none
    points: list[tuple[datetime, float, float, float]] = []
    cap = 0.0
    for entry in ledger.course(account, _MOST_POINTS):
        body = entry.body
        cap = float(from_text(body["cap"])) if "cap" in body else cap
        reserved, spent = from_text(body["account_reserved"]), from_text(body["account_spent"])
        points.append((datetime.fromisoformat(body["at"]), float(reserved + spent), float(spent), cap))
    points.append((max(datetime.now(UTC), points[-1][0]), *points[-1][1:]))
    return (
        [point[0] for point in points],
        [point[1] for point in points],
        [point[2] for point in points],
        [point[3] for point in points],
    )
