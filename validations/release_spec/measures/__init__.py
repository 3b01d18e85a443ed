"""Measures of a table: numbers beside its counts, a class for each kind."""
