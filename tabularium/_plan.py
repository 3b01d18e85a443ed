"""A plan: what wanted margins of error cost, and the shares and levels that meet them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._shown import Shown
from tabularium._spec import Spec
from tabularium._spec import load as load_spec
from tabularium.mechanisms.errors import InputError, MechanismError

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium.tasks.plan.finished_plan import Plan as Found


class Plan(Shown):
    """Budget, shares and levels for the targets of a spec. Made by :func:`plan`.

    Attributes
    ----------
    budget
        Of the release, for one unit: ε, or ρ where the spec says so.
    """

    def __init__(self, result: Found) -> None:
        self._found = result
        self.budget: Fraction = result.budget

    @property
    def spec(self) -> str:
        """The spec with the plan in it: the text of a file to lie next to the one that was planned."""
        from tabularium.tasks.plan.finished_plan import planned_text

        return planned_text(self._found)

    @property
    def targets(self) -> DataFrame:
        """What each level gets.

        A row for each: ``table``, ``measure`` (None of counts), ``level``, ``target`` in words, the margins
        ``wanted`` and predicted (``margin``), ``part`` of the budget that measures it, and what part it
        ``drives``: would not be needed without its targets.
        """
        import pandas as pd

        columns = ["table", "measure", "level", "target", "wanted", "margin", "part", "drives"]
        return pd.DataFrame(
            [
                (
                    *(margin.table.partition("-")[0], margin.measure, margin.level, margin.target),
                    *(margin.wanted, margin.margin, float(margin.part), margin.drives),
                )
                for margin in self._found.margins
            ],
            columns=columns,
        )

    @property
    def trade_off(self) -> DataFrame:
        """What other budgets would give: a row for each level as in ``targets``, a column for each budget."""
        import pandas as pd

        rows = [[margin.where, *margins] for margin, margins in self._margins_by_budget()]
        return pd.DataFrame(rows, columns=["cells", *(budget for budget, _ in self._found.trade_off)])

    def _margins_by_budget(self) -> list[tuple[Any, list[float]]]:
        result = self._found
        return [
            (margin, [margins[index] for _, margins in result.trade_off])
            for index, margin in enumerate(result.margins)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the numbers, as sentences."""
        from tabularium.tasks.plan.finished_plan import notes_on

        return tuple(notes_on(self._found))

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, exact fractions as texts."""
        from tabularium.tasks.plan.finished_plan import plan_as_json

        return plan_as_json(self._found)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Spec:
        """Write the planned spec, which is read back first, and return it.

        Parameters
        ----------
        path
            Next to the spec that was planned: a spec names its code lists and its source by where it lies.

        Raises
        ------
        InputError
            The file exists, lies elsewhere, or cannot be written.
        """
        from tabularium.tasks.plan.finished_plan import check_written, planned_text
        from tabularium.tasks.written_aside import written_aside

        target = Path(path)
        require_same_folder(target, self._found.loaded.path)
        with written_aside([target], overwrite=overwrite) as (aside,):
            aside.write_text(planned_text(self._found), encoding="utf-8")
            check_written(aside, self._found)
        return load_spec(target)

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw budget against margin into a new picture: .svg, .png or .pdf."""
        from tabularium.tasks.plan.finished_plan import draw_trade_off

        draw_trade_off(self._found, Path(path))

    def _headline(self) -> str:
        spec = self._found.loaded.spec
        return (
            f"plan of {spec.product}: {spec.privacy.symbol} = {self.budget} for one {spec.privacy.protects}"
        )

    def _rows(self) -> DataFrame:
        return self.targets[["table", "measure", "level", "wanted", "margin"]]


def require_same_folder(target: Path, spec: Path) -> None:
    """Refuse to write a spec elsewhere than next to the one that it is made from."""
    if target.resolve().parent != spec.resolve().parent:
        raise InputError(
            "a spec names its code lists and its source by where it lies",
            where=str(target),
            hint=f"write it next to {spec.name}",
        )


def plan(
    spec: Spec | str | os.PathLike[str],
    *,
    budget: Fraction | str | None = None,
    like: Release | str | os.PathLike[str] | None = None,
    mechanisms: bool = False,
    bounds: bool = False,
) -> Plan:
    """Find the smallest budget, the shares and the levels for the targets of a spec. Opens no data.

    Parameters
    ----------
    spec
        The YAML file, or a spec that was loaded.
    budget
        Find the best margins for it instead, as ``"1/2"``.
    like
        A published release whose counts stand for those to come.
    mechanisms
        Try other mechanisms on these counts.
    bounds
        Give measures the bounds that the release proposes.

    Raises
    ------
    InputError
        There are no targets, or none that could be judged or met.
    SpecError
        The spec is not in order.

    Examples
    --------
    >>> found = plan("census.yaml", budget="1/2")               # doctest: +SKIP
    >>> found.save("census-planned.yaml")                       # doctest: +SKIP
    """
    from tabularium.tasks.plan.planning import plan as find

    loaded = (spec if isinstance(spec, Spec) else load_spec(spec))._loaded
    release = like if isinstance(like, Release) or like is None else open_release(like)
    return Plan(
        find(
            loaded,
            budget=None if budget is None else _amount(budget),
            like=None if release is None else release._published("like"),
            mechanisms=mechanisms,
            bounds=bounds,
        )
    )


def _amount(budget: Fraction | str) -> Fraction:
    from tabularium.mechanisms.accounting import exact_amount

    try:
        amount = exact_amount(budget)
    except MechanismError:
        amount = Fraction(0)
    if amount <= 0:
        raise InputError("this is no budget", where="budget", hint='write "1/3" or "0.1"')
    return amount
