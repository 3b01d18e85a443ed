"""Denoise for sums: a tree of sums is measured, and smoothed on the tree."""
