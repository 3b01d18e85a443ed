"""The flow of a release, to be called inside a flow of one's own, served, or deployed.

from tabularium.prefect import release
"""

from __future__ import annotations

from tabularium.flows.release import release

__all__ = ["release"]
