"""Entries of format 3, in which whatever loosens an account's terms is signed.

Revision 0003, after 0002. The tables stay as they are. The number keeps releases that do not know the format
from appending to the chain, and on a server the function that appends takes no older format any more.
"""

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""
