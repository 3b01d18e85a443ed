"""The steps of post-processing, for stages, dry runs and simulations.

::

    measured ─▶ consistency ─▶ non-negativity ─▶ rounding ─▶ published        (those that the spec wants)

Nothing here reads or writes, and nothing sees a true value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.agreement import Agreement, StepResult
from tabularium.tasks.postprocess.table_layout import measured_tree
from tabularium.tasks.runtime.workspace import ArrayStore
from tabularium.validations.redaction import bare_errors
from tabularium.validations.release_spec.load import Loaded

VERSION = 5
"""Of everything from the measurements to the published numbers and their margins; a release names it.

One more whenever the same measurements would give other numbers: what was published is then remade, and
verified, by the software of its time, but for the versions that can still be remade here.
"""
WHOLE_SIMULATIONS = 2
"""Version in which every simulated release was of all cells, and as many as they allowed."""
REMADE = (VERSION,)
"""Versions whose numbers and margins can be made again, but for those of what changed since."""
CHANGED_IN_VERSION: dict[str, int] = {}
"""Mechanism, or ``prior`` -> the version from which on it makes what it makes now of the same measurement."""
CONSISTENCY = "consistency"
NONNEGATIVITY = "non-negativity"
ROUNDING = "rounding"


@dataclass(frozen=True, eq=False)
class PostProcessor:
    """The post-processing of a spec's tables.

    Attributes
    ----------
    steps
        The steps that the spec wants, in their order.
    """

    agreement: Agreement
    steps: tuple[str, ...]

    @classmethod
    def of(cls, loaded: Loaded) -> PostProcessor:
        """Return the post-processing that a spec asks for."""
        wanted = loaded.spec.postprocessing
        chosen = {
            CONSISTENCY: wanted.consistency,
            NONNEGATIVITY: wanted.nonnegativity,
            ROUNDING: wanted.rounding,
        }
        return cls(Agreement.of(loaded), tuple(step for step, done in chosen.items() if done))

    @property
    def linear(self) -> bool:
        """Whether nothing but linear steps comes after the measurement."""
        return not {NONNEGATIVITY, ROUNDING} & set(self.steps)

    def clips(self, table: str) -> bool:
        """Whether non-negativity moves the numbers of a table or array.

        Where it does not, errors know nothing of the truth: rounding T + E, T whole, gives T and E rounded.
        """
        return NONNEGATIVITY in self.steps and not self.agreement.holding(table).signed

    def apply(
        self,
        step: str,
        estimates: Mapping[str, Estimate],
        *,
        variances: bool = True,
        arrays: ArrayStore | None = None,
    ) -> StepResult:
        """Apply one step to all tables.

        Without ``variances`` those of several tables are rough: good for the next step, not for margins.
        ``arrays`` is where to put what comes of tables that have nothing to agree with.
        """
        if step == CONSISTENCY:
            return self.agreement.consistent(estimates, variances=variances, arrays=arrays)
        take = self.agreement.nonnegative if step == NONNEGATIVITY else self.agreement.whole
        return take(estimates, arrays=arrays)

    def finish(self, measured: Mapping[str, Estimate]) -> dict[str, Estimate]:
        """Apply all steps to all tables; deterministic."""
        estimates = dict(measured)
        for step in self.steps:
            estimates = self.apply(step, estimates, variances=False).estimates
        return estimates

    @bare_errors
    def dry_run(self) -> None:
        """Apply all steps to empty tables and the invariants of the spec.

        Raises
        ------
        MechanismError
            The invariants contradict each other, or leave no tables without negative numbers.
        """
        if not self.agreement.known:
            return
        empty = {}
        for name, layout in self.agreement.layouts.items():
            zeros = {level: (np.zeros(layout.shape(level)), 1.0) for level in layout.cuts}
            empty[name] = measured_tree(layout, zeros)
        try:
            self.finish(empty)
        except MechanismError as error:
            raise MechanismError(
                error.what, where="invariants", hint=f"{error.hint}; nothing was charged"
            ) from None
