"""The base of all twins: small mechanisms, each as it should be and broken in one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Mechanism
from tests.audit.cases import Case

Drawn = tuple[dict[str, Any], dict[str, Any]]
SMALL = Case(worst=([], []), shapes=((1,), (2,), (7,), (16,)), large=((130,),), largest=1000)


@dataclass(frozen=True)
class Twin(Mechanism):
    """Base: ``finish`` hands back what was measured."""

    broken: bool = True
    name: ClassVar[str] = "twin"
    definitions: ClassVar = ("pure",)
    case: ClassVar[Case] = SMALL

    def finish(self, measured: Measured) -> Release:
        return Release(
            values=next(iter(measured.arrays.values())),
            transcript=measured.transcript,
            insecure=measured.insecure,
            diagnostics=measured.meta,
        )
