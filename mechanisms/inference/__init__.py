"""Post-processing: everything that costs no budget because it sees measurements only.

``consistency`` (weighted least squares on a hierarchy), ``nonnegativity`` (family-wise projection),
``rounding`` (controlled rounding) and ``margins`` (half-widths of intervals), in this order.
"""

from mechanisms.inference.consistency import consistency
from mechanisms.inference.estimate import Estimate, Invariants
from mechanisms.inference.hierarchy import Block, Hierarchy
from mechanisms.inference.margins import laplace_margin, laplace_variance, margins
from mechanisms.inference.nonnegativity import nonnegativity
from mechanisms.inference.rounding import rounding

__all__ = [
    "Block",
    "Estimate",
    "Hierarchy",
    "Invariants",
    "consistency",
    "laplace_margin",
    "laplace_variance",
    "margins",
    "nonnegativity",
    "rounding",
]
