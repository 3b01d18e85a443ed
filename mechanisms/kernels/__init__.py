"""Numerical kernels of the mechanisms: plain functions on arrays, no channel, no budget.

They import Numba, which is heavy: a mechanism imports its kernel inside the function that uses it.
"""
