"""Comparison of mechanisms on public data: data sets, error measures, suites of experiments."""
