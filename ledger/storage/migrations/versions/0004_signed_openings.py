"""Entries of format 4, in which an officer signs the opening of accounts and the voiding of charges.

Revision 0004, after 0003. The tables stay as they are. On a server the function that takes a turn returns
other columns, so the old one goes; the engine puts the new one in place after the migration.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION IF EXISTS ledger_turn(text, text, text, text, text)")
