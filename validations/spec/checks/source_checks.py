"""Source, privacy, rules and post-processing: what must fit together there."""

from __future__ import annotations

import re
from decimal import Decimal
from urllib.parse import parse_qsl, urlsplit

from tabularium.validations.derivation.derived_columns import source_column
from tabularium.validations.spec.checks.engine_checks import check_engine
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.kinds import RECORD
from tabularium.validations.spec.parts.rules import NumbersRule, RangeRule, RowCountRule, UniqueRule
from tabularium.validations.spec.parts.source_part import Files, LookUp, Source
from tabularium.validations.spec.parts.store_addresses import is_in_store, secret_problem, store_problem
from tabularium.validations.spec.problems import Path, choose, quoted, shown

_SECRET = re.compile("(pass|password|passwd|passphrase|pwd|secret|token|api_?key|access_key)$")
_THOUSANDS = "., '\u2019_\u00a0\u202f"  # with the spaces that are not broken, as in French and in SI
_COLUMN_RULES = ("nulls", "invalid", "range")


def check_source(draft: Draft) -> None:
    """Check that the source is one thing, and says all that is needed to open it."""
    source, path = draft.source, ("source",)
    if source is None:
        return
    wrong = url_problem(source.url) if source.url is not None else None
    if wrong is not None:
        draft.add((*path, "url"), *wrong)  # whatever else is wrong: it may be a password
    if source.path is None and source.url is None:
        draft.add(
            path,
            "there is neither a path nor a url",
            "add path: for files, or url: and table: for a database",
        )
    elif source.path is not None and source.url is not None:
        draft.add(
            (*path, "url"), "there is a path too", "keep path for files, or url and table for a database"
        )
    elif source.path is not None:
        _check_files(draft, source)
    else:
        _check_database(draft, source)
    check_engine(draft, source)


def _check_files(draft: Draft, source: Source) -> None:
    hint = "write a path, an address such as s3://bucket/persons.parquet, or url: and table: for a database"
    check_files(draft, ("source",), source, hint)
    if source.table is not None:
        draft.add(("source", "table"), "a file has no tables", "remove table, or write url instead of path")
    if source.engine not in ("duckdb", "spark"):
        hint = "write engine: duckdb, engine: spark, or leave it out"
        draft.add(("source", "engine"), "files are read by duckdb or spark", hint)


def check_files(draft: Draft, path: Path, files: Files, hint: str = "write the path of a file") -> None:
    """Check that files can be opened as what they are; ``hint`` mends a URL in their place."""
    written, mark = files.path or "", files.delimiter
    wrong = _address_problem(files, hint) if "://" in written else None
    if wrong is not None:
        draft.add((*path, "path"), *wrong)
    elif files.file_format is None and "." in written.rstrip("/").rpartition("/")[2].replace("..", ""):
        what = "the ending does not say how the file is written"
        draft.add((*path, "path"), what, "add format: csv or format: parquet")
    if len(mark) != 1 or mark in "\"'\r\n\\" or mark.isalnum():
        what = "must be one character, neither a letter, a digit nor a quote"
        draft.add((*path, "delimiter"), what, 'write for instance delimiter: ";" or "\\t" in double quotes')
    _check_separators(draft, path, files, None if files.file_format == "parquet" else mark)


def _check_separators(draft: Draft, path: Path, files: Files, delimiter: str | None) -> None:
    """Check that what stands within numbers is one character, and is taken for nothing else."""
    thousands, decimal = files.thousands, files.separators.decimal
    if thousands is not None and (len(thousands) != 1 or thousands not in _THOUSANDS):
        what = "is not what may stand between thousands: a point, a comma, a space, an apostrophe or _"
        draft.add((*path, "thousands"), what, 'write for instance thousands: "."')
    elif thousands == decimal:
        what = f"is {quoted(decimal)}, and so is what stands before decimals"
        other = "," if decimal == "." else "."
        hint = f'write decimal: "{other}" if numbers stand as 1{decimal}234{other}5, or remove thousands'
        draft.add((*path, "thousands"), what, hint)
    for key, mark in (("thousands", thousands), ("decimal", files.decimal)):
        if mark is not None and mark == delimiter and mark in _THOUSANDS and files.quote == "none":
            what = f"is {quoted(mark)}, and so is the delimiter: without quotes, where does a value end?"
            hint = 'write delimiter: with the character between the values, or leave quote: "none" out'
            draft.add((*path, key), what, hint)


def _address_problem(files: Files, hint: str) -> tuple[str, str] | None:
    address = files.path or ""
    secret = secret_problem(address)
    if secret is not None or (isinstance(files, Source) and files.engine == "spark"):
        return secret
    if not is_in_store(address) or (isinstance(files, LookUp) and files.public is not None):
        return "is a URL", hint  # what is public is read with the spec, which asks no network
    return store_problem(address)


def _check_database(draft: Draft, source: Source) -> None:
    if source.table is None:
        draft.add(
            ("source", "url"), "`table` is missing", "add table: with the name of the table behind the url"
        )
    if source.engine not in ("database", "postgresql"):
        hint = "write engine: database, engine: postgresql, or leave it out"
        draft.add(("source", "engine"), "a url is read by its database", hint)
    for name in ("format", "delimiter", "quote", "nulls", "ignore", "limits"):
        if name in source.model_fields_set:
            draft.add(("source", name), "is for files, and the source is a database", "remove it")
    for name in ("thousands", "decimal"):
        if source.engine == "database" and name in source.model_fields_set:
            what = "is not known of a copy of the table, in which numbers of all types are text"
            draft.add(("source", name), what, "give a view that casts the text to numbers, or remove it")
    if source.engine == "postgresql":
        _check_separators(draft, ("source",), source, None)


def url_problem(url: str) -> tuple[str, str] | None:
    """Return what is wrong with a database URL and how to mend it, without quoting it; None if nothing is."""
    try:
        parts = urlsplit(url)
        secret = parts.password is not None
        names = [name.lower() for name, _ in parse_qsl(parts.query)]
    except ValueError:
        return "is not a URL", "write for instance postgresql://host/database"
    if not parts.scheme or "://" not in url:
        return "is not a URL", "write for instance postgresql://host/database"
    if secret or any(map(_SECRET.search, names)):
        hint = "remove it; use the database's own password file or environment variable"
        return "there is a password or a key in the URL, and specs are read by many", hint
    return None


def check_privacy(draft: Draft) -> None:
    """Check that a record contributes one record, the unit's column can be one, and δ goes with zcdp."""
    privacy = draft.privacy
    if privacy is None:
        return
    unit = privacy.unit
    if unit.column is None and privacy.max_contributions > 1:
        hint = "write 1, or name the column that tells the units apart: unit: {column: person_id}"
        draft.add(("privacy", "max_contributions"), "the unit has no column: each record is one", hint)
    if unit.column is not None and "max_contributions" not in privacy.model_fields_set:
        draft.add(
            ("privacy", "max_contributions"),
            f"is missing: say how many records of one {unit.called} are counted; the others are left out",
            "choose it from what is publicly known of the source, never from the data: 1 where each has one "
            "record, else a number that few exceed; noise grows with it",
        )
    if unit.column is None and privacy.cut_units is not None:
        hint = "remove it, or name the column that tells the units apart: unit: {column: person_id}"
        draft.add(("privacy", "cut_units"), "of a unit that is one record none are cut", hint)
    if privacy.definition == "zcdp" and privacy.delta is None:
        hint = 'add delta: "1/1000000", at which ε is reported; it changes neither the noise nor the cost'
        draft.add(("privacy", "definition"), "`delta` is missing", hint)
    if privacy.definition == "pure" and privacy.delta is not None:
        what = "pure differential privacy has no δ"
        draft.add(("privacy", "delta"), what, "remove delta, or write definition: zcdp")
    if unit.entity == RECORD and unit.column is not None:
        hint = f"name what the column tells apart: unit: {{entity: person, column: {shown(unit.column)}}}"
        draft.add(("privacy", "unit"), "`record` means that each record is a unit, and needs no column", hint)


def check_postprocessing(draft: Draft) -> None:
    """Check that steps which need levels that add up come after the step that makes them add up."""
    wanted = draft.postprocessing
    if wanted is None or wanted.consistency:
        return
    for step, on in (("nonnegativity", wanted.nonnegativity), ("rounding", wanted.rounding)):
        if on:
            draft.add(
                ("postprocessing", step),
                "needs levels that add up, and consistency is off",
                f"write {step}: false too, or leave consistency on",
            )


def check_rules(draft: Draft) -> None:
    """Check that rules speak of declared columns, of possible bounds, and of each thing once."""
    _check_rule_columns(draft)
    first: dict[str, int] = {}
    for place, rule in draft.rules:
        path: Path = ("rules", place)
        if first.setdefault(rule.name, place) != place:
            draft.add(path, f"rule {first[rule.name] + 1} is {quoted(rule.name)} too", "keep one of them")
        if isinstance(rule, (RowCountRule, RangeRule)):
            _check_bounds(draft, path, rule)
        if isinstance(rule, UniqueRule):
            _check_unique(draft, path, rule)
        if isinstance(rule, NumbersRule) and not draft.document.problems:  # else a measure may not be read
            _check_measured(draft, path, rule)


def _check_rule_columns(draft: Draft) -> None:
    """Check the columns of all rules, also of those that do not read for another reason."""
    written = draft.document.data.get("rules")
    for place, rule in enumerate(written if isinstance(written, list) else ()):
        name = rule.get("column") if isinstance(rule, dict) and rule.get("rule") in _COLUMN_RULES else None
        if isinstance(name, str) and name not in draft.columns:
            what = f"there is no column {quoted(name)} under `columns`"
            hint = choose(name, draft.columns, "declared columns")
            if draft.privacy is not None and draft.privacy.unit.column == name:
                hint = "remove the rule: a record whose unit is null is rejected, see source.max_rejected"
            draft.add(("rules", place, "column"), what, hint)


def _check_bounds(draft: Draft, path: Path, rule: RowCountRule | RangeRule) -> None:
    bounds = ["min", "max"]
    if isinstance(rule, RowCountRule):
        bounds.append("change_from_last")
    else:
        column = draft.columns.get(rule.column)
        if column is not None and column.integer is None:
            draft.add(
                (*path, "column"), f"{quoted(rule.column)} is not an integer column", "use invalid instead"
            )
        digits = None if column is None or column.integer is None else column.integer.digits
        for bound in ("min", "max"):
            number = getattr(rule, bound)
            if isinstance(number, Decimal) and -int(number.as_tuple().exponent) > (digits or 0):
                what = "has more digits than the edges of the column"
                draft.add((*path, bound), what, "write fewer digits, or the edges with more")
    if all(getattr(rule, bound) is None for bound in bounds):
        draft.add(path, "the rule has no bound", f"add {', '.join(bounds[:-1])} or {bounds[-1]}")
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        draft.add((*path, "min"), "is above `max`", "exchange them")


def _check_measured(draft: Draft, path: Path, rule: NumbersRule) -> None:
    measures = (measure for _, table in draft.tables for measure in table.measures.values())
    measured = dict.fromkeys(name for measure in measures for name in measure.columns)
    if rule.column not in measured:
        what = f"{quoted(rule.column)} is the column of no measure, and numbers are read for measures"
        hint = choose(rule.column, measured, "measured columns")
        if rule.column in draft.columns:
            hint = "write rule: invalid, which is about the values of a declared column"
        elif not measured:
            hint = "remove the rule: there are no measures"
        draft.add((*path, "column"), what, hint)


def _check_unique(draft: Draft, path: Path, rule: UniqueRule) -> None:
    if not rule.columns:
        draft.add((*path, "columns"), "is empty", "name at least one column of the source")
    if len(set(rule.columns)) < len(rule.columns):
        draft.add((*path, "columns"), "a column is here twice", "name every column once")
    sources = {source_column(name, column) for name, column in draft.columns.items() if column is not None}
    for name in rule.columns:
        column = draft.columns.get(name)
        if column is not None and name not in sources:
            own = source_column(name, column)
            hint = "name columns of the source" if own is None else f"name {quoted(own)}, which it comes from"
            draft.add((*path, "columns"), f"{quoted(name)} is made of other columns", hint)
