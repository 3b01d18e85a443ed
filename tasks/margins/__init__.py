"""Margins of error of every published cell."""
