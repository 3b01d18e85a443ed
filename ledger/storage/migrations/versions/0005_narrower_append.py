"""A function that appends which takes less: known kinds, named accounts and charges, times that have come.

Revision 0005, after 0004. The tables stay as they are, and so does the format of entries. On a server the
engine puts the new function in place after the migration; it is called as before, so the roles keep their
right to it.
"""

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""
