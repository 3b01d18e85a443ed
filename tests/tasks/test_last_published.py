"""What a rule compares with: a total of all records, or nothing."""

from __future__ import annotations

from tabularium.tasks.last_published import total_of


def test_a_total_is_of_a_table_of_all_records() -> None:
    some, every = {"name": "a", "where": "age >= 15"}, {"name": "b"}
    tables = {"a": {"total": 5}, "b": {"total": 9}}
    assert total_of({"spec": {"tables": [some, every]}, "tables": tables}) == 9
    assert total_of({"spec": {"tables": [some]}, "tables": tables}) is None
