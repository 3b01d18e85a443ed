"""Measures of a table: numbers in addition to its counts, one class for each kind."""
