"""Noisy counts drawn towards a table that was published before, as far as they themselves agree with it."""

from mechanisms.inference.prior_table.draw_towards import LEAST, Drawn, draw_towards

__all__ = ["LEAST", "Drawn", "draw_towards"]
