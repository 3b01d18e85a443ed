"""Measures of a table: numbers besides its counts, a class for each kind."""
