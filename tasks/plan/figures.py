"""Numbers of a plan as people read them."""

from __future__ import annotations


def in_figures(size: float) -> str:
    """Return a margin with four digits, and the zeros behind them."""
    return f"{size:,.4g}" if size < 10_000 else f"{float(f'{size:.4g}'):,.0f}"
