"""Compilation of loops that cannot be vectorised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

KERNELS: dict[str, Any] = {}
"""All kernels by their full names."""


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile ``function`` at its first call and keep the machine code on disk for the next process.

    Strict floating point (no reordering, no fused operations) and one thread, so that a kernel gives the
    same bits every time: two runs of an audit must agree, and so must a run without the compiler
    (``NUMBA_DISABLE_JIT=1``). Kernels copy arrays in loops: an array assigned to a slice takes seconds to
    compile, for the text of an error about shapes.
    """
    kernel = njit(cache=True, fastmath=False, nogil=True)(function)
    KERNELS[f"{function.__module__}.{function.__qualname__}"] = kernel
    return cast("Callable[Arguments, Result]", kernel)
