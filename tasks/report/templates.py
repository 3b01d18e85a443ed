"""The templates of pages for people: they escape all that they are given, and share words and style."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tabularium.tasks.publish.guarantee import at_most
from tabularium.tasks.report import wording

if TYPE_CHECKING:
    from jinja2 import Environment


@lru_cache
def templates(*packages: str) -> Environment:
    """Return the templates in the folders ``page`` of packages; the first that has a name gives it.

    Kept, as they are compiled when they are first asked for.
    """
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, "page") for package in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("whole", "signed", "short", "share", "size_words", "amount", "file_size"):
        made.filters[name] = getattr(wording, name)
    made.filters["at_most"] = at_most
    made.globals.update(several=wording.several, listed=wording.listed)
    return made
