"""The stages that work with measurements alone: consistency to the check of what is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabularium.mechanisms.errors import PublicationError, RuleFailed
from tabularium.tasks.postprocess.conflicts import Conflict
from tabularium.tasks.postprocess.estimation import estimation_of
from tabularium.tasks.postprocess.failed_cells import promises_of
from tabularium.tasks.postprocess.postprocessing import CONSISTENCY, NONNEGATIVITY, ROUNDING
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.suites.expectations import RuleResult
from tabularium.validations.suites.published_tables import check_agreement, check_table

if TYPE_CHECKING:
    from tabularium.tasks.ledger_stages import MeasuredHandle


@stage(CONSISTENCY)
def make_consistent(run: Run, measured: MeasuredHandle) -> None:
    """Bring the measurements onto their trees, and make them agree if the spec wants it.

    Raises
    ------
    PublicationError
        If the measurements contradict an invariant beyond chance, and the spec does not say to publish.
    """
    found = estimation_of(run, measured)
    found.compare_with_invariants()
    _judge(run, found.conflicts)
    found.make_consistent()


def _judge(run: Run, found: Mapping[str, Conflict]) -> None:
    for invariant in run.loaded.spec.invariants:
        about = found.get(invariant.name, Conflict())
        if not about.beyond_chance:
            continue
        contradicts = (
            f"the measurements contradict it beyond chance, at {about.beyond_chance:,} of {about.compared:,} "
            "numbers compared"
        )
        if invariant.on_conflict == "stop":
            raise PublicationError(
                contradicts,
                where=f"invariant {invariant.name}",
                hint="see that it counts what the source holds; correct it, remove it, or write on_conflict: "
                "publish: each makes another release, which is paid for again",
            )
        note(f"invariant {invariant.name}: {contradicts}; it is published, and the certificate says so")


@stage(NONNEGATIVITY)
def make_nonnegative(run: Run, measured: MeasuredHandle) -> None:
    """Project family by family onto what counts can be, keeping sums."""
    estimation_of(run, measured).take(NONNEGATIVITY)


@stage(ROUNDING)
def make_whole(run: Run, measured: MeasuredHandle) -> None:
    """Round to whole numbers that still add up along every hierarchy, and agree where that is possible."""
    estimation_of(run, measured).take(ROUNDING)


@stage("margins")
def find_margins(run: Run, measured: MeasuredHandle) -> None:
    """Find the margins of error of all tables."""
    estimation_of(run, measured).find_margins()


@stage("check publication")
def check(run: Run, measured: MeasuredHandle) -> None:
    """See that every table is what its post-processing promises, and that tables agree.

    What a spec promises is judged by Great Expectations from numbers of faults; the cells at fault are named,
    to the operator and in the certificate. All of it is computed from numbers that are published.

    Raises
    ------
    RuleFailed
        Naming the table and the rules; nothing has been published then.
    """
    found = estimation_of(run, measured)
    found.check()
    for table, checks in found.failed.items():
        for each in checks:
            note(f"table {table}: {each['count']:,} cells fail a check: {each['check']}")
    promised, agreement, values = run.loaded.spec.postprocessing, found.post.agreement, found.values
    folder = run.folder("publication")
    for name, numbers in values.items():
        layout = agreement.layouts[name]
        results = check_table(
            *(name, layout.parents, numbers),
            promised=promises_of(layout, promised),
            cells=layout.cells,
            results=folder / f"{name}.json",
        )
        _stop(results, f"table {name}", "the table")
    if promised.consistency and not agreement.alone:
        results = check_agreement(
            agreement.differences(values),
            named=_unmet(found.notes.get(ROUNDING, {})),
            results=folder / "agreement.json",
        )
        _stop(results, "tables", "the release")


def _unmet(about: Mapping[str, Any]) -> int:
    """Return how many shared numbers rounding could not make agree, of counts and of measures."""
    notes = [about, *about.get("measures", {}).values()]
    return sum(int(each.get("violations", {}).get("marginal", 0)) for each in notes)


def _stop(results: tuple[RuleResult, ...], where: str, who: str) -> None:
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise RuleFailed(
            f"{who} breaks {', '.join(failed)}",
            where=where,
            hint="report this: post-processing promises these rules",
        )
