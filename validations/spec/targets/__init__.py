"""Targets: the margins of error that are wanted, and the checks of them."""
