"""The front half of the chain as Prefect tasks: thin shells over the plain functions of their files."""

from __future__ import annotations

from tasks.count import CountsHandle, count_tables
from tasks.ingest.ingest import InputHandle, ingest_source
from tasks.last_published import last_total
from tasks.runtime.progress import note
from tasks.runtime.run import Run
from tasks.runtime.stage import stage
from tasks.validate import validate_microdata


@stage("ingest")
def ingest(run: Run) -> InputHandle:
    """Name the input by its keyed digest and see that it can be read."""
    return ingest_source(run.loaded, run.installation.secret(), run.folder("ingest"))


@stage("validate microdata")
def validate(run: Run, handle: InputHandle) -> None:
    """Judge the microdata by the rules of the spec; what is told is names, and pass or fail."""
    results = validate_microdata(run.loaded, handle, run.folder("validation"), last_total(run))
    for result in results:
        if not result.passed:
            note(f"the microdata break the rule {result.name}, which only warns")
        elif result.note:
            note(f"rule {result.name}: {result.note}")


@stage("count")
def count(run: Run, handle: InputHandle) -> CountsHandle:
    """Bound contributions and count."""
    return count_tables(run.loaded, handle, run.folder("counts"), secret=run.installation.secret())
