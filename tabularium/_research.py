"""Mechanisms on public counts, for research."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tabularium.mechanisms.measured import Release
    from tabularium.mechanisms.mechanism import Mechanism


class Study:
    """A mechanism that draws seeded noise, which anybody can draw again: only for public counts."""

    def __init__(self, built: Mechanism) -> None:
        self._built = built

    def release(self, counts: NDArray[Any], *, epsilon: Fraction | str | int, seed: int) -> Release:
        """Draw noise once.

        Parameters
        ----------
        epsilon
            The privacy loss, exact: ``"1/10"``.
        seed
            The same seed gives the same noise.

        Returns
        -------
        Release
            ``values``, of the shape of the counts, and ``transcript``: what was drawn and what it cost.
        """
        from tabularium.mechanisms.channel import SeededChannel

        return self._built.release(counts, SeededChannel(Fraction(epsilon), seed=seed))

    def __repr__(self) -> str:
        return f"{self._built!r} with seeded noise, for public counts"


def mechanism(name: str, **settings: Any) -> Study:
    """Build a mechanism by its name, as ``efpa``, with its own settings.

    Examples
    --------
    >>> import numpy as np
    >>> drawn = mechanism("identity").release(np.array([10, 20, 30]), epsilon="1/2", seed=1)
    >>> drawn.values.shape
    (3,)
    """
    from tabularium.mechanisms import build

    return Study(build(name, **settings))
