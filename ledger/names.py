"""Forms of names, digests and reasons in the ledger."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from datetime import date

from tabularium.ledger.refusals import BadValue

LONGEST_NAME = 128
LONGEST_TEXT = 512
#: Unicode's categories of controls, halves of surrogate pairs, ends of lines and of paragraphs.
_NEVER_IN_A_LINE = ("Cc", "Cs", "Zl", "Zp")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_label(value: object, *, field: str, longest: int = LONGEST_NAME) -> str:
    """Return ``value`` if it is one printable line in Unicode's composed form, else raise ``BadValue``.

    Two names that look the same must be the same: no control characters, no blanks at the ends, NFC only.
    """
    if not isinstance(value, str):
        raise BadValue(f"is of the kind {type(value).__name__}", where=field, hint="give text")
    if not value or value != value.strip():
        raise BadValue(
            "is empty or begins or ends with a blank", where=field, hint="give one plain line of text"
        )
    if len(value) > longest:
        raise BadValue(f"is longer than {longest} characters", where=field, hint="shorten it")
    if not value.isprintable() or not unicodedata.is_normalized("NFC", value):
        raise BadValue(
            "holds control or uncomposed characters", where=field, hint="give one plain line of text (NFC)"
        )
    return value


def check_text(value: object, *, field: str) -> str:
    """Return ``value`` if it is one line as :func:`check_label` wants it, of up to 512 characters."""
    return check_label(value, field=field, longest=LONGEST_TEXT)


def is_valid_stored_label(value: str, longest: int) -> bool:
    """Whether a line may stand in the ledger, for any reader.

    What is printable grows with each edition of Unicode, and so with the reader's Python: a character that it
    does not know yet is taken. :func:`check_label` is for what is written now.
    """
    if not value or value != value.strip() or len(value) > longest:
        return False
    if value.isascii():
        return value.isprintable()
    if any(unicodedata.category(character) in _NEVER_IN_A_LINE for character in value):
        return False
    return unicodedata.is_normalized("NFC", value)


def release_id(value: object) -> str:
    """Return ``value`` if it can name a charge, a lock and a folder, else raise ``BadValue``."""
    if not (isinstance(value, str) and _RELEASE.fullmatch(value)):
        raise BadValue(
            "is not 1 to 128 letters, digits, dots, dashes or underscores that begin with a letter or digit",
            where="release_id",
            hint="give the 32 digits of a release's id, as in: tabularium ledger show",
        )
    return value


def sha256(value: object, *, field: str) -> str:
    """Return ``value`` if it is a SHA-256 in hexadecimal, else raise ``BadValue``."""
    if not (isinstance(value, str) and _SHA256.fullmatch(value)):
        raise BadValue("is no SHA-256 of 64 digits and small letters a to f", where=field, hint="give one")
    return value


def fence(value: object) -> int:
    """Return ``value`` if it is a whole number above zero, else raise ``BadValue``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadValue("is not a whole number above zero", where="fence", hint="give what drawing() returned")
    return value


def day(value: object, *, field: str) -> str:
    """Return ``value`` if it is a day written ``YYYY-MM-DD``, else raise ``BadValue``."""
    if isinstance(value, str) and len(value) == 10:
        with suppress(ValueError):
            if date.fromisoformat(value).isoformat() == value:
                return value
    raise BadValue("is not a day written YYYY-MM-DD", where=field, hint="write it like 2026-12-31")


def one_of(value: object, choices: tuple[str, ...], *, field: str) -> str:
    """Return ``value`` if it is among ``choices``, else raise ``BadValue``."""
    if not (isinstance(value, str) and value in choices):
        raise BadValue("is not among " + ", ".join(choices), where=field, hint="choose one of them")
    return value
