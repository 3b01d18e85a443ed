"""Heavy libraries that are imported when they are first used, so that small commands begin at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """A module that is imported when something of it is asked for.

    Type checkers see the module itself::

        if TYPE_CHECKING:
            import ibis
        else:
            ibis = Later("ibis")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
