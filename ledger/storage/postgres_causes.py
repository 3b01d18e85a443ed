"""What PostgreSQL's errors mean to a person, by their SQLSTATE and never by their text."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

_LOST = ("was cut off from this process", "run again: what was committed is found, and not repeated")
_LOCKED = ("is kept locked by another process", "wait for it, then run again")

#: what an SQLSTATE, or the class it begins with, means: (what, hint)
_CAUSES = {
    "55P03": _LOCKED,
    "40P01": _LOCKED,
    "53100": ("has no space left on its disk; nothing was written", "free some space, then run again"),
    "53200": ("has no memory left; nothing was written", "free some memory, then run again"),
    "53300": ("takes no more connections", "raise max_connections, or run fewer processes at once"),
    "42501": (
        "does not allow this to this user",
        "log in with the role for it: reader, writer or officer (see: tabularium ledger roles); migrate and "
        "restore are for the owner of the tables",
    ),
    "25006": ("is a copy that takes no entries", "use the URL of the primary server"),
    "28": ("does not let this user in", "check the user and password of the URL"),
    "3D000": ("does not exist", "create it, then run: tabularium ledger migrate"),
    "TB001": ("refused an entry that does not continue the chain", "verify the ledger"),
    "TB002": (
        "lets only a disclosure officer write this kind of entry",
        "log in with the officer's role (see: tabularium ledger roles)",
    ),
    "TB004": ("refused an entry dated ahead of the server's clock", "set the clock of this machine"),
    "TB005": (
        "refused an entry that does not follow from those before it",
        "verify the ledger, and append with Tabularium alone",
    ),
    "TB006": ("refused an entry dated behind the server's clock", "set the clock of this machine"),
    "22": ("refused a value that it cannot read", "verify the ledger"),
    "23": ("refused an entry that does not continue the chain", "verify the ledger"),
    "58": ("cannot be read or written", "check the server's disk"),
    "XX": ("is damaged", "stop the server and restore the last good backup"),
    "08": _LOST,
    "57P": _LOST,
    "25P03": _LOST,  # the server ended a session that sat on the right to append
    "57014": ("took too long and was stopped", "wait, then run again"),
}
_BUSY = ("55P03", "40P01")
#: The driver does not hand on the SQLSTATE with which a server turns a connection away.
_UNREACHED = (
    "cannot be reached",
    "check the server, the URL, the user and the password, and that this user may connect (GRANT CONNECT)",
)


def cause(error: DBAPIError) -> tuple[bool, str, str]:
    """Return whether somebody else is only in the way, what is wrong with the database, and the hint."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if not state:
        return False, *(_LOST if error.connection_invalidated else _UNREACHED)
    for known in (state, state[:3], state[:2]):
        if known in _CAUSES:
            return state in _BUSY, *_CAUSES[known]
    return False, "refused a statement", "look at the server's log and verify the ledger"
