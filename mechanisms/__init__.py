"""Pure numerics: differentially private mechanisms, NumPy in and out.

A mechanism lives in ``histograms``, its proof at the head of its module, its private loops next to it; it
draws through ``channel``, whose samplers are in ``noise``, and ``accounting`` says what that costs.
``inference`` and ``queries`` work on what has been drawn. No file, no database, no scheduler. Importing
this package imports nothing heavy; a mechanism's module is loaded when it is built.
"""

from __future__ import annotations

from tabularium.mechanisms.registry import MECHANISMS, build, restore

__all__ = ["MECHANISMS", "build", "restore"]
