"""The first tables: entries, and a row to lock.

Revision 0001. What guards the tables (triggers, functions) is put in place by the engine after every
migration: see `ledger/storage/sqlite.py` and `ledger/storage/postgres_guard.py`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _name(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables and their indexes."""
    op.create_table(
        "entries",
        sa.Column(
            "seq",
            sa.Integer().with_variant(sa.BigInteger, "postgresql"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("kind", _name(16), nullable=False),
        sa.Column("account", _name(128), nullable=False),
        sa.Column("release_id", _name(128)),
        sa.Column("product", _name(128)),
        sa.Column("period", _name(128)),
        sa.Column("input_digest", _name(512)),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("prev", _name(64), nullable=False),
        sa.Column("hash", _name(64), nullable=False),
    )
    is_account = sa.text("kind = 'account'")
    op.create_index(
        "entries_terms", "entries", ["account", "seq"], sqlite_where=is_account, postgresql_where=is_account
    )
    op.create_index("entries_account", "entries", ["account", "seq"])
    op.create_index("entries_period", "entries", ["account", "period", "seq"])
    op.create_index("entries_product", "entries", ["account", "product", "seq"])
    op.create_index("entries_release", "entries", ["release_id", "seq"])
    has_input = sa.text("input_digest IS NOT NULL")
    op.create_index(
        "entries_input",
        "entries",
        ["input_digest", "account"],
        sqlite_where=has_input,
        postgresql_where=has_input,
    )
    made = op.create_table("locks", sa.Column("name", sa.String(16), primary_key=True))
    op.bulk_insert(made, [{"name": "head"}])
