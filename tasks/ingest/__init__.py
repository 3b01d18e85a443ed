"""Ingestion: finding a source, naming it by its keyed digest, and opening it."""
