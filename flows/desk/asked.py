"""What a page is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request that was let in.

    Attributes
    ----------
    path, query
        Parts of the address by name.
    form
        What a form holds; None of a page that is only looked at.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] | None = None

    def value(self, name: str) -> str:
        """Return what a form or an address has under a name, without blanks around it; empty if nothing."""
        return (self.form or self.query).get(name, "").strip()


@dataclass(frozen=True)
class Page:
    """A page: a template, and what it shows."""

    template: str
    shows: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Elsewhere:
    """That the browser is to go to another address of the desk."""

    address: str


@dataclass(frozen=True)
class Document:
    """A file that is shown as it is, under a policy of its own."""

    content: bytes
    media_type: str
    policy: str
