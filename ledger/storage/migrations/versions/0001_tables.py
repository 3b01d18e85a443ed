"""The tables of :mod:`tabularium.ledger.storage.schema`, and the row that every writer locks.

What guards the tables (triggers, functions) is put in place by the engine afterwards: see
:mod:`tabularium.ledger.storage.sqlite` and :mod:`tabularium.ledger.storage.postgres`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _name(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables and their indexes."""
    op.create_table(
        "entries",
        sa.Column("seq", sa.Integer().with_variant(sa.BigInteger, "postgresql"), autoincrement=False),
        sa.Column("kind", _name(16), nullable=False),
        sa.Column("account", _name(128), nullable=False),
        sa.Column("release_id", _name(128)),
        sa.Column("product", _name(128)),
        sa.Column("period", _name(128)),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("prev", _name(64), nullable=False),
        sa.Column("hash", _name(64), nullable=False),
        sa.Column("subject", _name(512)),
        sa.Column("part", _name(128)),
        sa.PrimaryKeyConstraint("seq"),
    )
    for name, columns, where in (
        ("account", ["account", "seq"], None),
        ("period", ["account", "period", "seq"], None),
        ("product", ["account", "product", "seq"], None),
        ("release", ["release_id", "seq"], None),
        ("terms", ["account", "kind", "seq"], "(kind = 'account' OR kind = 'terms')"),
        ("subject", ["account", "subject", "seq"], "subject IS NOT NULL AND part IS NULL"),
        ("part", ["account", "subject", "part", "seq"], "part IS NOT NULL"),
    ):
        only = None if where is None else sa.text(where)
        op.create_index(f"entries_{name}", "entries", columns, sqlite_where=only, postgresql_where=only)
    locks = op.create_table("locks", sa.Column("name", sa.String(16), primary_key=True))
    op.bulk_insert(locks, [{"name": "head"}])
