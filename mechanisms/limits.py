"""Public bounds of whole numbers: what 64 bits, or a double, hold after sums and noise."""

LARGEST_COUNT = 1 << 40
"""Of a cell; larger ones are cut off, which brings no two tables further apart."""
LARGEST_SUM = 1 << 60
"""Of counts, costs or deviations that are added up; noise has the rest of 63 bits."""
LARGEST_VALUE = 1 << 61
"""Of what the channel adds noise to, or compares: noise added to a value beyond could overflow."""
LARGEST_POINT = float(1 << 52)
"""Of a lattice, in steps: beyond, a float no longer holds every point exactly."""
LARGEST_WHOLE = float(1 << 53)
"""Up to here every whole number is a double."""
