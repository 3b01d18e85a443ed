"""Synthetic data, comparison of mechanisms and the demo: on top of the product, which imports nothing of it."""
