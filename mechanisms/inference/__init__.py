"""Post-processing of measurements, which costs no budget.

One table along one hierarchy, in this order: ``consistency`` (weighted least squares, so that families
add up), ``nonnegativity`` (projection, parents before children), ``rounding`` (whole numbers that still
add up), ``margins`` (half-widths of intervals). Several tables that share dimensions are described by an
``TableSet`` and take the same steps together: ``joint_consistency``, ``joint_nonnegativity``,
``joint_rounding`` (``joint/``). ``margins_of_error/`` has half-widths, simulated errors, and errors that
are measured for a price.
"""

from tabularium.mechanisms.inference.estimate import Estimate, Invariants
from tabularium.mechanisms.inference.hierarchy import Block, Hierarchy
from tabularium.mechanisms.inference.joint.joint_consistency import Joint, joint_consistency
from tabularium.mechanisms.inference.joint.joint_nonnegativity import NonNegative, joint_nonnegativity
from tabularium.mechanisms.inference.joint.joint_rounding import Rounded, Violation, joint_rounding
from tabularium.mechanisms.inference.joint.shared_marginals import TableSet, TableShape
from tabularium.mechanisms.inference.margins_of_error.half_widths import margins, widen_to_cover
from tabularium.mechanisms.inference.nonnegativity import nonnegativity
from tabularium.mechanisms.inference.rounding import rounding
from tabularium.mechanisms.inference.tree_least_squares import TreeLeastSquares, consistency
from tabularium.mechanisms.noise_distributions import laplace_margin, laplace_variance

__all__ = [
    "Block",
    "Estimate",
    "Hierarchy",
    "Invariants",
    "Joint",
    "NonNegative",
    "Rounded",
    "TableSet",
    "TableShape",
    "TreeLeastSquares",
    "Violation",
    "consistency",
    "joint_consistency",
    "joint_nonnegativity",
    "joint_rounding",
    "laplace_margin",
    "laplace_variance",
    "margins",
    "nonnegativity",
    "rounding",
    "widen_to_cover",
]
