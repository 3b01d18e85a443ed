"""Pure numerics: differentially private mechanisms, NumPy in and out.

No file, no database, no scheduler. Importing this package imports nothing heavy; a mechanism's module is
loaded when it is built.
"""

from __future__ import annotations

from mechanisms.registry import MECHANISMS, build, restore

__all__ = ["MECHANISMS", "build", "restore"]
