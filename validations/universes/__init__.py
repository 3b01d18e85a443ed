"""Universes: which records a table counts, by a public test of each record."""
