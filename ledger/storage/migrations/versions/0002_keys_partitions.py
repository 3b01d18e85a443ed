"""Columns for keys, approvals and partitions, and indexes that a planner cannot pass by.

Revision 0002, after 0001. Rows that are there have no such subject, and stay as they are.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _name(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns and make the indexes anew."""
    op.add_column("entries", sa.Column("subject", _name(512)))
    op.add_column("entries", sa.Column("part", _name(128)))
    for name in ("terms", "account", "period", "product", "release"):
        op.drop_index(f"entries_{name}", "entries")
    is_account, is_terms = sa.text("kind = 'account'"), sa.text("kind = 'terms'")
    has_subject = sa.text("subject IS NOT NULL")
    indexes = [  # each is ordered by an expression that no other index offers
        ("account", ["account"], None),
        ("period", ["account", "period"], None),
        ("product", ["account", "product"], None),
        ("release", ["release_id"], None),
        ("opened", ["account"], is_account),
        ("terms", ["account"], is_terms),
        ("subject", ["account", "subject", "part"], has_subject),
    ]
    for number, (name, columns, where) in enumerate(indexes):
        place = sa.text(f"(seq + {number})")
        op.create_index(
            f"entries_{name}", "entries", [*columns, place], sqlite_where=where, postgresql_where=where
        )
