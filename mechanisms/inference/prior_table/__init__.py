"""Noisy counts drawn towards an earlier release or the level above, as far as they agree with it."""

from tabularium.mechanisms.inference.prior_table.draw_towards import LEAST, Drawn, draw_towards
from tabularium.mechanisms.inference.prior_table.level_above import expected_below

__all__ = ["LEAST", "Drawn", "draw_towards", "expected_below"]
