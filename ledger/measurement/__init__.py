"""Measuring once: the lock on a release, the order of the steps, and the durable store."""
