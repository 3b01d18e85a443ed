"""Noisy sums of a table's cells, and the least-squares estimate of any other sum."""
