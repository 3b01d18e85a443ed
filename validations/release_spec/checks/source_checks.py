"""Source, engines, look-ups, privacy, rules and post-processing: what must fit together there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path as FilePath

from tabularium.validations.derivation import source_column
from tabularium.validations.release_spec.columns import NumberColumn
from tabularium.validations.release_spec.kinds import RECORD
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.privacy import NumbersRule, RangeRule, RowCountRule, UniqueRule
from tabularium.validations.release_spec.problems import Path, choose, nearest, quoted, shown
from tabularium.validations.release_spec.source import (
    Files,
    FileSource,
    LookUp,
    PostgresTable,
    SparkFiles,
    is_in_store,
    located,
    public_name,
    secret_problem,
    store_problem,
    taken_from,
    url_problem,
)

_THOUSANDS = "., '\u2019_\u00a0\u202f"  # with the spaces that are not broken, as in French and in SI
_COLUMN_RULES = ("nulls", "invalid", "range")


def check_source(partial: PartialSpec) -> None:
    """Check that the files of the source say all that is needed to open them, and who joins look-ups."""
    _check_secrets(partial)
    source = partial.source
    if isinstance(source, FileSource):
        hint = (
            "write a path, an address such as s3://bucket/persons.parquet, or url: and table: for a database"
        )
        check_files(partial, ("source",), source, hint)
    elif isinstance(source, SparkFiles):
        check_files(partial, ("source",), source)
        _check_spark(partial, source)
    elif isinstance(source, PostgresTable):
        _check_separators(partial, ("source",), source, None)
    if isinstance(source, SparkFiles | PostgresTable):
        for name, look in partial.lookups.items():
            if look is not None and look.public is None:
                what = f"{source.engine} joins only public look-ups"
                hint = (
                    "join the privacy unit's rows in a view or before writing the files, and name that source"
                )
                partial.add(("lookups", name), what, hint)


def _check_secrets(partial: PartialSpec) -> None:
    """Find passwords in addresses, also where the source or look-up has a mistake and does not read."""
    data = partial.document.data
    look_ups = data.get("lookups")
    places: list[tuple[Path, object]] = [(("source",), data.get("source"))]
    if isinstance(look_ups, dict):
        places += [(("lookups", name), look) for name, look in look_ups.items()]
    for path, written in places:
        if not isinstance(written, dict):
            continue
        for key, problem_of in (("path", secret_problem), ("url", url_problem)):
            address = written.get(key)
            problem = problem_of(address) if isinstance(address, str) and "://" in address else None
            if problem is not None:
                partial.add((*path, key), *problem)


def _check_spark(partial: PartialSpec, source: SparkFiles) -> None:
    path = ("source", "path")
    if source.file_format == "csv":
        hint = "write the records as Parquet, or leave engine out"
        partial.add(path, "spark reads Parquet files, since it reads damaged CSV without a word", hint)
    elif source.file_format is None:
        partial.add(path, "the ending does not say how the files are written", "add format: parquet")


def check_files(
    partial: PartialSpec, path: Path, files: Files, hint: str = "write the path of a file"
) -> None:
    """Check that files can be opened as what they are; ``hint`` is for a URL in their place."""
    written, mark = files.path or "", files.delimiter
    wrong = _address_problem(files, hint) if "://" in written else None
    if wrong is not None:
        partial.add((*path, "path"), *wrong)
    elif files.file_format is None and "." in written.rstrip("/").rpartition("/")[2].replace("..", ""):
        what = "the ending does not say how the file is written"
        partial.add((*path, "path"), what, "add format: csv or format: parquet")
    if len(mark) != 1 or mark in "\"'\r\n\\" or mark.isalnum():
        what = "must be one character, neither a letter, a digit nor a quote"
        partial.add((*path, "delimiter"), what, 'write for instance delimiter: ";" or "\\t" in double quotes')
    _check_separators(partial, path, files, None if files.file_format == "parquet" else mark)


def _check_separators(
    partial: PartialSpec, path: Path, files: Files | PostgresTable, delimiter: str | None
) -> None:
    """Check that what stands within numbers is one character, and is taken for nothing else."""
    thousands, decimal = files.thousands, files.separators.decimal
    if thousands is not None and (len(thousands) != 1 or thousands not in _THOUSANDS):
        what = "is not what may stand between thousands: a point, a comma, a space, an apostrophe or _"
        partial.add((*path, "thousands"), what, 'write for instance thousands: "."')
    elif thousands == decimal:
        what = f"is {quoted(decimal)}, and so is what stands before decimals"
        other = "," if decimal == "." else "."
        hint = f'write decimal: "{other}" if numbers stand as 1{decimal}234{other}5, or remove thousands'
        partial.add((*path, "thousands"), what, hint)
    for key, mark in (("thousands", thousands), ("decimal", files.decimal)):
        if (
            mark is not None
            and mark == delimiter
            and mark in _THOUSANDS
            and isinstance(files, Files)
            and files.quote == "none"
        ):
            what = f"is {quoted(mark)}, and so is the delimiter: without quotes, where does a value end?"
            hint = 'write delimiter: with the character between the values, or leave quote: "none" out'
            partial.add((*path, key), what, hint)


def _address_problem(files: Files, hint: str) -> tuple[str, str] | None:
    address = files.path or ""
    secret = secret_problem(address)
    if secret is not None or (isinstance(files, SparkFiles)):
        return secret
    if not is_in_store(address) or (isinstance(files, LookUp) and files.public is not None):
        return "is a URL", hint  # what is public is read with the spec, which asks no network
    return store_problem(address)


def check_privacy(partial: PartialSpec) -> None:
    """Check that a record contributes one record, the unit's column can be one, and δ goes with zcdp."""
    privacy = partial.privacy
    if privacy is None:
        return
    unit = privacy.unit
    if unit.column is None and privacy.max_contributions > 1:
        hint = "write 1, or name the column that tells the units apart: unit: {column: person_id}"
        partial.add(("privacy", "max_contributions"), "the unit has no column: each record is one", hint)
    if unit.column is not None and "max_contributions" not in privacy.model_fields_set:
        partial.add(
            ("privacy", "max_contributions"),
            f"is missing: say how many records of one {unit.called} are counted; the others are left out",
            "choose it from what is publicly known of the source, never from the data: 1 where each has one "
            "record, else a number that few exceed; noise grows with it",
        )
    if unit.column is None and privacy.cut_units is not None:
        hint = "remove it, or name the column that tells the units apart: unit: {column: person_id}"
        partial.add(("privacy", "cut_units"), "of a unit that is one record none are cut", hint)
    if privacy.definition == "zcdp" and privacy.delta is None:
        hint = 'add delta: "1/1000000", at which ε is reported; it changes neither the noise nor the cost'
        partial.add(("privacy", "definition"), "`delta` is missing", hint)
    if privacy.definition == "pure" and privacy.delta is not None:
        what = "pure differential privacy has no δ"
        partial.add(("privacy", "delta"), what, "remove delta, or write definition: zcdp")
    if unit.entity == RECORD and unit.column is not None:
        hint = f"name what the column tells apart: unit: {{entity: person, column: {shown(unit.column)}}}"
        partial.add(
            ("privacy", "unit"), "`record` means that each record is a unit, and needs no column", hint
        )


def check_postprocessing(partial: PartialSpec) -> None:
    """Check that steps which need levels that add up come after the step that makes them add up."""
    wanted = partial.postprocessing
    if wanted is None or wanted.consistency:
        return
    for step, on in (("nonnegativity", wanted.nonnegativity), ("rounding", wanted.rounding)):
        if on:
            partial.add(
                ("postprocessing", step),
                "needs levels that add up, and consistency is off",
                f"write {step}: false too, or leave consistency on",
            )


def check_rules(partial: PartialSpec) -> None:
    """Check that rules speak of declared columns, of possible bounds, and of each thing once."""
    _check_rule_columns(partial)
    first: dict[str, int] = {}
    for index, rule in partial.rules:
        path: Path = ("rules", index)
        if first.setdefault(rule.name, index) != index:
            partial.add(path, f"rule {first[rule.name] + 1} is {quoted(rule.name)} too", "keep one of them")
        if isinstance(rule, (RowCountRule, RangeRule)):
            _check_bounds(partial, path, rule)
        if isinstance(rule, UniqueRule):
            _check_unique(partial, path, rule)
        if isinstance(rule, NumbersRule) and not partial.document.problems:  # else a measure may not be read
            _check_measured(partial, path, rule)


def _check_rule_columns(partial: PartialSpec) -> None:
    """Check the columns of all rules, also of those that do not read for another reason."""
    written = partial.document.data.get("rules")
    for index, rule in enumerate(written if isinstance(written, list) else ()):
        name = rule.get("column") if isinstance(rule, dict) and rule.get("rule") in _COLUMN_RULES else None
        if isinstance(name, str) and name not in partial.columns:
            what = f"there is no column {quoted(name)} under `columns`"
            hint = choose(name, partial.columns, "declared columns")
            if partial.privacy is not None and partial.privacy.unit.column == name:
                hint = "remove the rule: a record whose unit is null is rejected, see source.max_rejected"
            partial.add(("rules", index, "column"), what, hint)


def _check_bounds(partial: PartialSpec, path: Path, rule: RowCountRule | RangeRule) -> None:
    bounds = ["min", "max"]
    if isinstance(rule, RowCountRule):
        bounds.append("change_from_last")
    else:
        column = partial.columns.get(rule.column)
        if column is not None and not isinstance(column, NumberColumn):
            partial.add(
                (*path, "column"), f"{quoted(rule.column)} is not an integer column", "use invalid instead"
            )
        digits = column.integer.digits if isinstance(column, NumberColumn) else None
        for bound in ("min", "max"):
            number = getattr(rule, bound)
            if isinstance(number, Decimal) and -int(number.as_tuple().exponent) > (digits or 0):
                what = "has more digits than the edges of the column"
                partial.add((*path, bound), what, "write fewer digits, or the edges with more")
    if all(getattr(rule, bound) is None for bound in bounds):
        partial.add(path, "the rule has no bound", f"add {', '.join(bounds[:-1])} or {bounds[-1]}")
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        partial.add((*path, "min"), "is above `max`", "exchange them")


def _check_measured(partial: PartialSpec, path: Path, rule: NumbersRule) -> None:
    measures = (measure for _, table in partial.tables for measure in table.measures.values())
    measured = dict.fromkeys(name for measure in measures for name in measure.columns)
    if rule.column not in measured:
        what = f"{quoted(rule.column)} is the column of no measure, and numbers are read for measures"
        hint = choose(rule.column, measured, "measured columns")
        if rule.column in partial.columns:
            hint = "write rule: invalid, which is about the values of a declared column"
        elif not measured:
            hint = "remove the rule: there are no measures"
        partial.add((*path, "column"), what, hint)


def _check_unique(partial: PartialSpec, path: Path, rule: UniqueRule) -> None:
    if not rule.columns:
        partial.add((*path, "columns"), "is empty", "name at least one column of the source")
    if len(set(rule.columns)) < len(rule.columns):
        partial.add((*path, "columns"), "a column is here twice", "name every column once")
    sources = {source_column(name, column) for name, column in partial.columns.items() if column is not None}
    for name in rule.columns:
        column = partial.columns.get(name)
        if column is not None and name not in sources:
            read_from = source_column(name, column)
            hint = (
                "name columns of the source"
                if read_from is None
                else f"name {quoted(read_from)}, which it comes from"
            )
            partial.add((*path, "columns"), f"{quoted(name)} is made of other columns", hint)


# A row that belongs to nobody in particular but came out of private data, such as one of a shared
# household, would change the records of other units when it changes. So a look-up of rows that bear no unit
# is accepted only when it is declared public.


def check_look_ups(partial: PartialSpec, folder: FilePath) -> None:
    """Check what every look-up is and how it is joined; take the digests of the public ones.

    Public files are read, relative to ``folder``. No data is opened.
    """
    for name, look in partial.lookups.items():
        if look is None:
            continue
        path: Path = ("lookups", name)
        if look.path is None:
            partial.add(path, "there is no path", "write path: with the file of the look-up")
        else:
            check_files(partial, path, look)
        _check_kind(partial, path, look)
        if look.public is not None:
            _check_public(partial, path, look, folder)
        _check_order(partial, path, look)
    _check_names(partial)


def look_up_notes(spec: ReleaseSpec) -> Iterator[str]:
    """Yield what is allowed but may not be intended, and what is found where."""
    unit = spec.privacy.unit
    for name, look in spec.lookups.items():
        if look.unit is not None:
            yield f"look-up {name}: a {unit.called} finds only its own rows, none where a key has several"
        elif look.looked_up == unit.column:
            yield (
                f"look-up {name} has a key for each {unit.called}, and nothing in it is protected: if it "
                f"tells of them, write unit: {look.key} instead of public and key"
            )


def _check_kind(partial: PartialSpec, path: Path, look: LookUp) -> None:
    """Check that it is either public or of the unit, and has what it is joined by."""
    unit = None if partial.privacy is None else partial.privacy.unit
    if look.public is not None and look.unit is not None:
        partial.add((*path, "unit"), "is public too", "keep public, or the column of the privacy unit")
    elif look.public is None and look.unit is None:
        of_unit = unit is not None and unit.column is not None and look.looked_up == unit.column
        what = (
            "is neither public nor of the privacy unit, so that its rows could change the records of others"
        )
        hint = (
            f"write unit: {look.key} instead of key"
            if of_unit
            else "write public: and why nobody's data are in it, or unit: with its column of the unit's ids"
        )
        partial.add(path, what, hint)
    elif look.unit is not None and unit is not None and unit.column is None:
        what = "each record is a privacy unit, and no look-up can carry it"
        hint = "name the column that tells units apart, privacy.unit: {column: person_id}; or write public:"
        partial.add((*path, "unit"), what if unit.entity == RECORD else f"{what}: it has no column", hint)
    if look.public is not None and look.key is None:
        partial.add(path, "`key` is missing", "name the column in which values are looked up")
    if look.source_column is not None and look.key is None:
        partial.add(
            (*path, "from"), "there is no key", "write key: with the column of the look-up, or remove it"
        )


def _check_public(partial: PartialSpec, path: Path, look: LookUp, folder: FilePath) -> None:
    """Take the digest of a public look-up: its content is a part of the spec, as with a code list."""
    period = partial.document.data.get("period")
    if look.path is None or "://" in look.path or not isinstance(period, str):
        return
    file = FilePath(located(look.path, period, folder))
    private = {"the source": partial.source} | {
        f"look-up {name}, of the unit": lookup
        for name, lookup in partial.lookups.items()
        if lookup is not None and lookup.unit is not None and lookup is not look
    }
    for name, look_of_unit in private.items():
        if not isinstance(look_of_unit, Files) or look_of_unit.path is None:
            continue
        if _same_file(file, FilePath(located(look_of_unit.path, period, folder))):
            what = f"is the file of {name}, which is not public"
            partial.add((*path, "public"), what, "remove the look-up, or name the file of a public list")
            return
    digest = _digest(file)
    if digest is not None:
        partial.public_files[public_name(str(path[-1]))] = digest
        return
    what = f"there is no file {quoted(look.path)}"
    hint = "check the path, which is relative to the spec file; a public look-up is one file"
    partial.add((*path, "path"), what, hint)


def _same_file(one: FilePath, other: FilePath) -> bool:
    """Whether two paths are one file, also by a link."""
    try:
        return one == other or one.samefile(other)
    except (OSError, ValueError):
        return False


def _digest(file: FilePath) -> str | None:
    try:
        if file.is_file():
            with file.open("rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest()
    except (OSError, ValueError):
        pass
    return None


def _check_order(partial: PartialSpec, path: Path, look: LookUp) -> None:
    """Check that what is looked up stands in the source, or in a look-up further up."""
    above = list(partial.lookups)[: list(partial.lookups).index(str(path[-1]))]
    look_up, _ = taken_from(look.looked_up or "", partial.lookups)
    if look_up and look_up not in above:
        field = "from" if look.source_column is not None else "key"
        partial.add(
            (*path, field), f"{quoted(look_up)} does not stand above it", f"write {quoted(look_up)} first"
        )


def _check_names(partial: PartialSpec) -> None:
    """Check every name of a column of the source: its look-up is there, and each look-up is used."""
    used = set()
    for path, name in _named(partial):
        look_up, _ = taken_from(name, partial.lookups)
        used.add(look_up)
        prefix, dot, _ = name.partition(".")
        if not look_up and dot and nearest(prefix, partial.lookups) is not None:
            what = f"there is no look-up {quoted(prefix)}"
            partial.add(path, what, choose(prefix, partial.lookups, "look-ups"))
    for name in partial.lookups:
        if name not in used and not partial.document.problems:  # else what uses it may not have been read
            what, hint = "no column is taken from it", f"write for instance from: {name}.COLUMN, or remove it"
            partial.add(("lookups", name), what, hint)
    unit = None if partial.privacy is None else partial.privacy.unit.column
    if unit is not None and taken_from(unit, partial.lookups)[0]:
        what, hint = "stands in a look-up", "name a column of the source: whose a record is stands with it"
        partial.add(("privacy", "unit"), what, hint)


def _named(partial: PartialSpec) -> Iterator[tuple[Path, str]]:
    """Yield every name of a column of the source, with its place in the spec."""
    for name, column in partial.columns.items():
        if column is not None and column.cases is None:
            same_name = column.source_column is None
            yield (
                (("columns", name) if same_name else ("columns", name, "from")),
                column.source_column or name,
            )
    for index, table in partial.tables:
        for name, measure in table.measures.items():
            path: Path = ("tables", index, "measures", name)
            if measure.test is None:
                yield (*path, measure.kind), measure.of
            if measure.weight is not None:
                yield (*path, "weight", "column"), measure.weight.column
    for index, histogram in partial.histograms:
        yield ("histograms", index, "of"), histogram.of
    for index, rule in partial.rules:
        if isinstance(rule, UniqueRule):
            yield from ((("rules", index, "columns", at), name) for at, name in enumerate(rule.columns))
    for name, look in partial.lookups.items():
        if look is not None and look.looked_up is not None:
            field = "from" if look.source_column is not None else "key"
            yield ("lookups", name, field), look.looked_up
