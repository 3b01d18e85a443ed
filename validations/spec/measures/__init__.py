"""Measures of a table: sums and means of a column, beside its counts."""
