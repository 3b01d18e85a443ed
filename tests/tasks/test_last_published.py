"""What a rule compares with: a total of all records, or nothing."""

from __future__ import annotations

from tabularium.tasks.publish.verify_certificate import total_of


def test_a_total_is_of_a_table_of_all_records() -> None:
    totals = {"a": 5, "b": 9}
    assert total_of({"a": "age >= 15", "b": None}, totals) == 9
    assert total_of({"a": "age >= 15"}, totals) is None
