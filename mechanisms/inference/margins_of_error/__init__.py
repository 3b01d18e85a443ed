"""Margins of error: exact, simulated, estimated or measured.

``half_widths``: from the variance of the noise, for linear estimates. ``simulation``: from simulated
releases, where non-negativity and rounding moved the numbers. ``ratio_intervals`` and ``quantile_margins``:
of means, rates and quantiles, cell by cell. ``measured_error``: from a private measurement of the error,
where a mechanism cannot tell its own.
"""
