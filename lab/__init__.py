"""Synthetic data, comparison of mechanisms and the demo, on top of the product."""
