"""Post-processing: everything that costs no budget because it sees measurements only.

``consistency`` (weighted least squares on a hierarchy), ``nonnegativity`` (family-wise projection),
``rounding`` (controlled rounding) and ``margins`` (half-widths of intervals), in this order. ``Overlap``
describes several tables over shared dimensions; ``joint_consistency``, ``joint_nonnegativity`` and
``joint_rounding`` do for them what the first three do for one.
"""

from mechanisms.inference.consistency import consistency
from mechanisms.inference.estimate import Estimate, Invariants
from mechanisms.inference.hierarchy import Block, Hierarchy
from mechanisms.inference.joint.joint_consistency import Joint, joint_consistency
from mechanisms.inference.joint.joint_nonnegativity import NonNegative, joint_nonnegativity
from mechanisms.inference.joint.joint_rounding import Rounded, joint_rounding
from mechanisms.inference.joint.shared_marginals import Frame, Overlap
from mechanisms.inference.joint.violations import Violation
from mechanisms.inference.margins_of_error.half_widths import (
    covering,
    laplace_margin,
    laplace_variance,
    margins,
)
from mechanisms.inference.nonnegativity import nonnegativity
from mechanisms.inference.rounding import rounding

__all__ = [
    "Block",
    "Estimate",
    "Frame",
    "Hierarchy",
    "Invariants",
    "Joint",
    "NonNegative",
    "Overlap",
    "Rounded",
    "Violation",
    "consistency",
    "covering",
    "joint_consistency",
    "joint_nonnegativity",
    "joint_rounding",
    "laplace_margin",
    "laplace_variance",
    "margins",
    "nonnegativity",
    "rounding",
]
