"""What a library raises becomes an error of ours; a mistake of the program stays one."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable

import duckdb
import ibis
import pytest

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.validations.redaction import redacted

TABLE = ibis.table({"a": "string"}, name="t")


def _missing() -> object:
    return {}["a"]


@pytest.mark.parametrize(
    "mistake",
    [
        _missing,
        lambda: TABLE.aggregate(n=ibis.table({"a": "string"}, name="u").a.count()).filter(TABLE.a > 1),
    ],
)
def test_a_mistake_of_the_program_is_not_told_as_one_of_the_data(mistake: Callable[[], object]) -> None:
    with pytest.raises(Exception) as caught:
        redacted(mistake, InputRefused("the file is damaged"))
    assert not isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    "fault",
    [
        lambda: duckdb.sql("SELECT CAST('Zebedee' AS int)").fetchall(),
        lambda: gzip.GzipFile(fileobj=io.BytesIO(b"Zebedee")).read(),
        lambda: json.loads("{"),
        b"\xff".decode,
    ],
)
def test_what_is_read_and_at_fault_has_the_error_of_its_place(fault: Callable[[], object]) -> None:
    with pytest.raises(InputRefused, match="the file is damaged"):
        redacted(fault, InputRefused("the file is damaged"))
