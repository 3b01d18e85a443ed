"""A release of a table that stays in PostgreSQL: published, verified, bound to its records; nothing stays open."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from tabularium.flows.release_chain import release_tables
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import DataRefused
from tabularium.tasks.input_binding import is_bound
from tabularium.tasks.runtime import workspace as resources
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Request
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.ledger.storage.postgres import Server
from tests.tasks.engines import one_spec


@pytest.mark.audit
def test_it_is_published_verified_and_bound_to_its_records(server: Server, tmp_path: Path) -> None:
    if not server.socket:
        pytest.skip("the folder of the server's socket has too long a name")
    database = server.new_database()
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.ROWS * 5))
    text = one_spec.SMALL + "publication: {{folder: releases}}\n"
    loaded = one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), text)
    home = Home.at(tmp_path / "home")
    with Ledger.connect(home.ledger_url) as books:
        terms = {"unit": "person", "relation": "add-remove", "definition": "pure", "cap": Fraction(9)}
        books.open_account("survey", **terms)
    request = Request.of(loaded.path, None, None, home.path)
    first = release_tables(request)
    assert first.status == "published"
    checked = list(verify_release(Subject(Path(first.folder))))
    assert checked and not [each for each in checked if each.outcome == "failed"]
    assert is_bound(home, first.release_id, "another") is False
    assert release_tables(request).status == "already published"
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute("DELETE FROM people WHERE person = 'p3'")
        with pytest.raises(DataRefused, match="another input was bound"):
            release_tables(request)
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        assert connection.execute(others, (database,)).fetchone() == (0,)
    assert not resources._open
    server.drop_database(database)
