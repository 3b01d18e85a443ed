"""Rehearsals: a spec is run on made-up records, and all that comes out is marked as a rehearsal."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.flows.rehearsing.made_up_records import MadeUpRecords
from tabularium.mechanisms.errors import InputError, InternalError, PlaceClosed, TabulariumError
from tabularium.tasks.ingest.ingest import ingest_public
from tabularium.tasks.ingest.open_source import keys_of
from tabularium.tasks.publish.certificate.sections import validation
from tabularium.tasks.publish.documents import DOCUMENTS, without_documents
from tabularium.tasks.publish.guarantee import privacy_section
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import is_rehearsal, try_writing
from tabularium.tasks.report.report import report
from tabularium.tasks.runtime.diagnoses import Unexpected
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, observed, reporter, reporting_to
from tabularium.tasks.runtime.stage import sanitised
from tabularium.validations.certificate import CERTIFICATE, REHEARSAL, Certificate, Fact, Rehearsed
from tabularium.validations.redaction import bare_errors
from tabularium.validations.release_spec.exact_facts import facts_of_release, neighbours
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.problems import Problem, SpecProblems
from tabularium.validations.release_spec.scalars import MOST_CHARACTERS
from tabularium.validations.release_spec.source import located
from tabularium.validations.release_spec.tables import ABOVE
from tabularium.validations.release_spec.yaml_lines import read_yaml

# The child process of a rehearsal: it opens a home with one account, publishes, and reports in JSON lines.
#
# Which home and ledger the program works with follows from environment variables. If a rehearsal changed
# them in the process that asks for it, a release that runs there meanwhile could lose sight of its ledger
# and draw noise again that is already paid for. So a rehearsal has a process with an environment of its
# own.


_OF_AN_INSTALLATION = ("TABULARIUM_", "PREFECT_")
#: Limits of memory and disk hold for a rehearsal too; no other variable of an installation is handed on.
_KEPT = ("TABULARIUM_ENGINE_MEMORY", "TABULARIUM_WORKSPACES")


def released_apart(written: Path, home: Path, spec: Path) -> Path:
    """Publish a spec under a new home in a child process, and return the folder of the release.

    The stages of the child are reported here. Its notes are not: they are about made-up records.

    ``spec``: the spec that is rehearsed: problems name it.

    Raises
    ------
    TabulariumError
        As the release would.
    InternalError
        The child failed unexpectedly, or was killed.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith(_OF_AN_INSTALLATION)
    }
    command = [sys.executable, "-P", "-m", __name__, str(written), str(home)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - this program
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it was asked for
        try:
            for line in process.stdout:
                message = json.loads(line)
                match message.pop("kind"):
                    case "published":
                        return Path(message["folder"])
                    case "refused":
                        raise _error_in(message, written.name, spec.name)
                    case kind:
                        getattr(reporter(), kind)(**message)
            code = process.wait()
        finally:
            process.kill()
        errors.seek(0)
        raise _ended(code, errors.read().decode(errors="backslashreplace"))


def _error_in(message: dict[str, Any], written: str, spec: str) -> TabulariumError:
    """Return the error that the child reports; problems of its spec become problems of the user's."""
    problems = [Problem(**problem) for problem in message["problems"]]
    if problems:
        return SpecProblems(
            [
                replace(problem, line=None, file=spec) if problem.file == written else problem
                for problem in problems
            ]
        )
    if message["traceback"]:
        error = Unexpected("an unexpected error", where=message["where"], hint="report it with its traceback")
        error.traceback = message["traceback"]
        return error
    kind = InternalError if message["internal"] else InputError
    return kind(message["what"], where=message["where"], hint=message["hint"])


def _ended(code: int, errors: str) -> InternalError:
    """Return the error for a child that ended without a report."""
    if code < 0:
        return InternalError(
            f"the process of the rehearsal was killed by {signal.Signals(-code).name}",
            where="rehearse",
            hint="if memory ran out, give fewer --rows; else run it again",
        )
    error = Unexpected(
        f"the process of the rehearsal ended with exit code {code} and no result",
        where="rehearse",
        hint="report it with its traceback",
    )
    error.traceback = errors
    return error


@dataclass
class _JsonLines(NullReporter):
    """A reporter that writes stages and progress as lines of JSON."""

    to: TextIO = sys.stdout

    def write(self, kind: str, **content: Any) -> None:
        """Write a message."""
        self.to.write(json.dumps({"kind": kind, **content}) + "\n")
        self.to.flush()

    def started(self, stage: str) -> None:
        """Write that a stage begins."""
        self.write("started", stage=stage)

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Write that a stage ended well."""
        self.write("finished", stage=stage, seconds=seconds, peak_mib=peak_mib)

    def failed(self, stage: str) -> None:
        """Write that a stage raised."""
        self.write("failed", stage=stage)

    def advanced(self, cells: int, of: int) -> None:
        """Write how many cells are done."""
        self.write("advanced", cells=cells, of=of)

    def refused(self, error: TabulariumError, traceback: str) -> None:
        """Write why there is no release."""
        problems = error.problems if isinstance(error, SpecProblems) else ()
        self.write(
            "refused",
            what=error.what,
            where=error.where,
            hint=error.hint,
            internal=isinstance(error, InternalError),
            problems=[problem.as_json() for problem in problems],
            traceback=traceback,
        )


def _publish(spec: Path, home: Path) -> Path:
    """Publish a spec under a new home whose account can pay for this release only."""
    from tabularium.flows.release_chain import release_tables
    from tabularium.ledger import Ledger
    from tabularium.tasks.runtime.run import Request, load

    request = Request.of(spec, home=home)
    loaded = load(request)
    privacy = loaded.spec.privacy
    with Ledger.connect(Home.at(home).ledger_url) as ledger:
        ledger.open_account(
            loaded.spec.dataset,
            unit=privacy.protects,
            population=privacy.unit.population,
            relation=privacy.relation,
            definition=privacy.definition,
            cap=privacy.budget,
            delta=privacy.delta,
        )
    return Path(release_tables(request, loaded).folder)


def _main() -> None:
    spec, home = map(Path, sys.argv[1:])
    lines = _JsonLines()
    try:
        with reporting_to(lines):
            folder = _publish(spec, home)
    except Exception as error:
        failure = sanitised(error, "rehearse", Home.at(home))
        shown = getattr(failure, "traceback", "")
        if isinstance(failure, InternalError) and not shown:
            # The home keeps it closed and is thrown away; the data are made up, so that it quotes nobody.
            shown = "\n".join(traceback.read_text() for traceback in Home.at(home).tracebacks.glob("*.txt"))
        lines.refused(failure, shown)
    else:
        lines.write("published", folder=str(folder))


if __name__ == "__main__":
    _main()


# The spec of a rehearsal: the same tables at the same price, with made-up records as their source.


STAMP = "REHEARSAL of made-up records"
_WRITTEN = ("unit", "key", "from")  # of a private look-up, what a made-up file of it keeps


def write_rehearsed(loaded: Loaded, target: Path, *, source: Path, lookups: Mapping[str, Path]) -> None:
    """Write the spec of a rehearsal of a spec.

    The title of everything that is published says that it is a rehearsal. Rules warn where they would stop,
    for made-up records keep few of them; invariants that the records contradict are published with the
    conflict; no draft waits for an officer; and nothing is drawn towards an earlier release.

    Parameters
    ----------
    target
        The file; its releases go into ``releases`` in the same folder.
    source, lookups
        The made-up records, and those of every private look-up.
    """
    data: dict[str, Any] = copy.deepcopy(read_yaml(loaded.path).data)
    data["period"] = loaded.spec.period
    data["source"] = {"path": str(source), "max_rejected": "100%"}
    for name, look in data.get("lookups", {}).items():
        if name in lookups:
            written = {key: value for key, value in look.items() if key in _WRITTEN}
            data["lookups"][name] = {**written, "path": str(lookups[name])}
        else:
            look["path"] = located(look["path"], loaded.spec.period, loaded.folder)
    for column in data["columns"].values():
        _make_absolute(column, "hierarchy", loaded.folder)
        _make_absolute(column, "categories", loaded.folder)
    for numbers in (*data.get("invariants", ()), *data.get("figures", ())):
        _make_absolute(numbers, "values", loaded.folder)
    for invariant in data.get("invariants", ()):
        invariant["on_conflict"] = "publish"
    for rule in data.get("rules", ()):
        rule["severity"] = "warn"
    for entry in (*data["tables"], *data.get("histograms", ())):
        entry["title"] = stamped(entry.get("title", entry["name"]))
        if entry.get("prior", ABOVE) != ABOVE:
            del entry["prior"]
    about = data.setdefault("about", {})
    about["title"] = stamped(about.get("title", data["product"]))
    publication = data.setdefault("publication", {})
    publication["folder"] = "releases"
    publication.pop("review", None)
    for name in ("revises", "measurements_of", "targets", "tuning", "workspace"):
        data.pop(name, None)
    target.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")


def stamped(title: str) -> str:
    """Return the title of something that is rehearsed, cut where it would be too long for a title."""
    text = f"{STAMP}: {title}"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def as_declared(certificate: Certificate, loaded: Loaded) -> Certificate:
    """Return the certificate of a rehearsal with what a release would say of rules and of the guarantee.

    A rehearsal stops at no rule. A release does, and so its existence says exactly that each rule held, which
    no budget covers.
    """
    spec, ledger = loaded.spec, certificate.ledger
    tries = [tally.attempts for tally in ledger.tally_charges]
    facts = facts_of_release(spec, ledger.attempts, tries)
    privacy = privacy_section(
        spec,
        neighbours(spec, loaded.domains),
        [draw.event for draw in certificate.transcript],
        [pair.delta for pair in certificate.privacy.epsilon_delta or ()],
        population=certificate.privacy.unit.population,
        conversion=certificate.privacy.conversion,
    )
    outside = tuple(Fact(kind=fact.kind, name=fact.name, what=fact.what) for fact in facts)
    return certificate.model_copy(
        update={
            "outside_the_guarantee": outside,
            "privacy": privacy,
            "validation": validation(spec, len(tries)),
        }
    )


def _make_absolute(part: dict[str, Any], key: str, folder: Path) -> None:
    if isinstance(part.get(key), str):
        part[key] = str(folder / part[key])


FOLDER = "rehearsal"
ROWS = 10_000
_MOST_CHOSEN = 1_000_000  # records where nobody says how many
_MOST_ROWS = 100_000_000  # they are all held in memory
_REPORT = "report.html"
_SAYS = (
    "All records were made up from the public domains of the spec. No number here is about anybody, and no "
    "budget was spent."
)


def rehearse(
    path: Path,
    folder: Path | None,
    *,
    period: str | None = None,
    rows: int | None = None,
    like: Released | None = None,
    seed: int = 1,
) -> Path:
    """Try a spec on made-up records, through the whole chain under a home that is thrown away.

    No source, private look-up, earlier release or home is opened.

    Parameters
    ----------
    folder
        Where the outcome goes; by default ``rehearsal`` next to the spec. A rehearsal that is there is
        replaced, unless other files lie in its folder.
    rows
        How many records; by default as many as ``like`` counts, or the spec expects under ``size`` (up to a
        million), or 10 000.
    like
        A published release whose tables the records are to be like.

    Raises
    ------
    SpecProblems
        The spec is not in order.
    InputError
        Something else lies in the folder, it cannot be written, ``rows`` or ``seed`` is out of range, a
        public look-up cannot be read, or ``like`` has no table of the spec's columns.
    TabulariumError
        As a release would.
    """
    _see_range("rows", rows, 1, _MOST_ROWS)
    _see_range("seed", seed, 0, None)
    loaded = load_spec(path, period=period, rehearsed=True)
    target = (loaded.folder / FOLDER if folder is None else folder).absolute()
    _see_free(target)
    many, why = _how_many(rows, loaded, like)
    with TemporaryDirectory(prefix="tabularium-rehearsal-") as folder_aside:
        here = Path(folder_aside)
        with observed("make up records"):
            records = MadeUpRecords(loaded, many, seed, _public_keys(loaded, here), like)
            pq.write_table(records.source(), here / "records.parquet")
            private = [name for name, look in loaded.spec.lookups.items() if look.public is None]
            for name in private:
                pq.write_table(records.look_up(name), here / f"{name}.parquet")
        write_rehearsed(
            loaded,
            here / "spec.yaml",
            source=here / "records.parquet",
            lookups={name: here / f"{name}.parquet" for name in private},
        )
        released = released_apart(here / "spec.yaml", here / "home", loaded.path)
        with observed("mark as a rehearsal"):
            made_up = {
                "records": many,
                "why": why,
                "like": None if like is None else like.certificate.release_id,
                "seed": seed,
                "says": _SAYS,
            }
            _stamp(released, loaded, made_up)
            _see_free(target)  # minutes may have passed
            _put(released, target)
    return target


def _see_range(name: str, number: int | None, least: int, most: int | None) -> None:
    if number is not None and (number < least or (most is not None and number > most)):
        end = "" if most is None else f" and at most {most:,}"
        raise InputError("the number is out of range", where=name, hint=f"give at least {least}{end}")


@bare_errors
def _see_free(target: Path) -> None:
    """See that a rehearsal can be put at ``target``, and that it would replace nothing but a rehearsal."""
    hint = "name another folder with --out"
    if target.is_dir() and is_rehearsal(target):
        foreign = _foreign(target)
        if foreign:
            raise InputError(
                f"{foreign[0]!r} is no part of the rehearsal in this folder, and would be deleted with it",
                where=str(target),
                hint=f"take it out of the folder, or {hint}",
            )
    elif os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise InputError("something else lies here", where=str(target), hint=hint)
    try:
        try_writing(target.parent)
    except PlaceClosed as error:
        raise InputError(error.what, where=str(target), hint=hint) from None


def _foreign(folder: Path) -> list[str]:
    """Return what lies in the folder of a rehearsal and is not in its list of files."""
    try:
        named = {REHEARSAL, *json.loads((folder / REHEARSAL).read_bytes())["files"]}
    except (OSError, ValueError, LookupError, TypeError):
        named = set()
    there = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted({path.relative_to(folder).as_posix() for path in there} - named)


def _how_many(rows: int | None, loaded: Loaded, like: Released | None) -> tuple[int, str]:
    """Return how many records are made up, and why so many."""
    if rows is not None:
        return rows, "given as rows"
    if like is not None:
        wanted = max(1, *(table.total for table in like.certificate.tables.values()))
        who = "the release that they are like counts"
    elif loaded.spec.size is not None:
        wanted, who = loaded.spec.size, "the spec expects"
    else:
        return ROWS, "the default where neither rows, like nor size says how many"
    if wanted <= _MOST_CHOSEN:
        return wanted, f"as many as {who}"
    return _MOST_CHOSEN, (
        f"{who} {wanted:,}, and a rehearsal makes at most {_MOST_CHOSEN:,} unless rows says more; margins of "
        "means, rates and medians are wider here than in the release"
    )


def _public_keys(loaded: Loaded, scratch: Path) -> dict[str, pa.Array]:
    """Return the keys that stand in public look-ups, as text."""
    names = [name for name, look in loaded.spec.lookups.items() if look.public is not None]
    return {name: keys_of(loaded, name, ingest_public(loaded, name, scratch), scratch) for name in names}


def _stamp(folder: Path, loaded: Loaded, made_up: dict[str, Any]) -> None:
    """Turn a release into a rehearsal: no certificate, and no document but a report that says what it is."""
    certificate = without_documents(Certificate.read((folder / CERTIFICATE).read_bytes()))
    certificate = as_declared(certificate, loaded)
    for name in (CERTIFICATE, *DOCUMENTS):
        (folder / name).unlink(missing_ok=True)
    number = f"{made_up['records']:,} records were made up: {made_up['why']}."
    page = report(folder, certificate, None, compared_with=(f"{STAMP}.", number, _SAYS))
    (folder / _REPORT).write_bytes(page)
    document = {"rehearsal": made_up, **certificate.document()}
    document["files"][_REPORT] = hashlib.sha256(page).hexdigest()
    Rehearsed.of(document)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / REHEARSAL).write_text(text, encoding="utf-8")


def _put(released: Path, target: Path) -> None:
    """Put a rehearsal in its place, whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rehearsal-", dir=target.parent) as aside:
        shutil.copytree(released, Path(aside) / "new")
        if target.exists():
            target.rename(Path(aside) / "old")
        (Path(aside) / "new").rename(target)
