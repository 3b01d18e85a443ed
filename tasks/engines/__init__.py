"""Engines that hold the records themselves: PostgreSQL and Spark. Only cells and digests leave them."""
