"""Compilation of loops that cannot be vectorised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache, update_wrapper
from types import CodeType, FunctionType
from typing import Any, ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

KERNELS: dict[str, Kernel] = {}
"""All kernels by their full names."""


class Kernel:
    """A function that is compiled at its first call; until then nothing imports numba."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        update_wrapper(self, function)
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Compile it for the types of these arguments, if that was not done, and run it."""
        return self.dispatcher(*arguments)

    @property
    def dispatcher(self) -> Any:
        """Numba's function, which sees those of the kernels that it calls."""
        if self._dispatcher is None:
            self._dispatcher = self._made()
        return self._dispatcher

    def _made(self) -> Any:
        try:
            from numba import njit
        except ModuleNotFoundError as error:
            if error.name != "numba":
                raise
            _say_uncompiled()
            return self.function  # which calls the others of the kernels by their names

        known = self.function.__globals__
        called = {
            name: known[name].dispatcher
            for name in set(_names(self.function.__code__)) & set(known)
            if isinstance(known[name], Kernel) and known[name] is not self
        }
        again = FunctionType(
            self.function.__code__,
            {**known, **called},
            self.function.__name__,
            self.function.__defaults__,
            self.function.__closure__,
        )
        update_wrapper(again, self.function)
        del again.__wrapped__  # type: ignore[attr-defined]
        return njit(cache=True, fastmath=False, nogil=True)(again)

    @property
    def signatures(self) -> list[Any]:
        """The types for which it has been compiled in this process."""
        try:
            return list(self._dispatcher.signatures)
        except AttributeError:  # not called yet, or called without the compiler
            return []


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile ``function`` at its first call and keep the machine code on disk for the next process.

    Strict floating point (no reordering, no fused operations) and one thread, so that a kernel gives the
    same bits every time: two runs of an audit must agree, and so must a run without the compiler
    (``NUMBA_DISABLE_JIT=1``). Kernels copy arrays in loops: an array assigned to a slice takes seconds to
    compile, for the text of an error about shapes.
    """
    kernel = Kernel(cast("FunctionType", function))
    KERNELS[f"{function.__module__}.{function.__qualname__}"] = kernel
    return cast("Callable[Arguments, Result]", kernel)


class Uncompiled(UserWarning):
    """Loops run without the compiler: what they give is the same, and it takes long."""


@cache
def _say_uncompiled() -> None:
    warnings.warn(
        "numba is not installed: loops run uncompiled, with the same results, slowly; "
        "install tabularium-dp[run]",
        Uncompiled,
        stacklevel=2,
    )


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function uses, those of its comprehensions among them."""
    yield from code.co_names
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _names(item)
