"""Denoise for sums: measures a tree of sums, and smooths on the tree."""
