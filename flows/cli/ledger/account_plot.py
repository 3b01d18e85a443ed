"""A picture of an account: what was reserved and spent over time, under its cap."""

from __future__ import annotations

from pathlib import Path

from tabularium import Books
from tabularium.ledger.records import SYMBOLS
from tabularium.mechanisms.errors import InputError

FORMATS = (".svg", ".png", ".pdf")


def plot_spending(books: Books, account: str, file: Path) -> None:
    """Draw the account's cap, what is used and what is spent, as steps over time.

    Raises
    ------
    InputError
        If there is no such account, or the file cannot be written.
    """
    from matplotlib.dates import date2num
    from matplotlib.figure import Figure

    course = books.course(account)
    caps, used, spent = (
        [float(getattr(point, what)) for point in course] for what in ("cap", "used", "spent")
    )
    symbol = SYMBOLS[books.account(account).definition]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    times = [float(date2num(point.at)) for point in course]
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
            f"cannot be written ({error.strerror})", where=str(file), hint="name another file"
        )
    else:
        return
    raise failure
