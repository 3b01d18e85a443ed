"""Noisy sums of a table's cells, and what they say of any other sum by least squares."""
