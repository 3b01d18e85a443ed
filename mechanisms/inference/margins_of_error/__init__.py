"""How far published numbers may lie from the truth, and how that is known.

``half_widths``: from the variance of the noise, for linear estimates. ``simulation``: from simulated
releases, where non-negativity and rounding moved the numbers; ``tallies`` counts what such margins hold.
``measured_error``: from a private measurement of the error, where a mechanism cannot tell its own.
"""
