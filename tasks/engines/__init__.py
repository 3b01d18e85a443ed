"""Engines that hold the records, PostgreSQL and Spark: only cells and digests leave them."""
