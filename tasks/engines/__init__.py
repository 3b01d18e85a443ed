"""Engines that keep the records: PostgreSQL and Spark. Only cells and digests leave them."""
