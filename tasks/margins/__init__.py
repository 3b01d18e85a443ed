"""Margins of error of every published cell, and how they are known."""
