"""All broken twins.

Twins live in the tests only. Each stands for a mistake that has been published, or shipped, or is easy to
make; the sound form of the same mechanism stands beside it.
"""

from __future__ import annotations

from tests.audit.twin import Twin
from tests.audit.twins_of_leaks import (
    FailsBecauseOfTheData,
    NoiseOfItsOwn,
    NotesOnTheError,
    OrderInMemory,
    RaisesOnTheData,
    SaysItInThePurpose,
    SwallowsEverything,
    TrueTotalInTheDiagnostics,
    WarnsAboutTheData,
    WidthOfTheInteger,
)
from tests.audit.twins_of_losses import (
    CostsBeyondTheBin,
    EventCountFromTheData,
    GroupsFromTheData,
    HalfTheScale,
    HalfTheSigma,
    OneCandidateTooGood,
    OneGroupTooMany,
    OverlappingBins,
    SharesFromTheData,
)
from tests.audit.twins_of_memory import (
    PeekingFinish,
    RemembersByTheNoise,
    RemembersTheFirst,
    ReusesItsBuffer,
    SharesItsNotes,
)
from tests.audit.twins_of_papers import BarePhase, CapFromTheData, DrawPerBin, UnboundedDepth

__all__ = [
    "TWINS",
    "BarePhase",
    "CapFromTheData",
    "CostsBeyondTheBin",
    "DrawPerBin",
    "EventCountFromTheData",
    "FailsBecauseOfTheData",
    "GroupsFromTheData",
    "HalfTheScale",
    "HalfTheSigma",
    "NoiseOfItsOwn",
    "NotesOnTheError",
    "OneCandidateTooGood",
    "OneGroupTooMany",
    "OrderInMemory",
    "OverlappingBins",
    "PeekingFinish",
    "RaisesOnTheData",
    "RemembersByTheNoise",
    "RemembersTheFirst",
    "ReusesItsBuffer",
    "SaysItInThePurpose",
    "SharesFromTheData",
    "SharesItsNotes",
    "SwallowsEverything",
    "TrueTotalInTheDiagnostics",
    "Twin",
    "UnboundedDepth",
    "WarnsAboutTheData",
    "WidthOfTheInteger",
]

TWINS: list[type[Twin]] = [
    BarePhase,
    DrawPerBin,
    CapFromTheData,
    UnboundedDepth,
    HalfTheScale,
    HalfTheSigma,
    PeekingFinish,
    EventCountFromTheData,
    OverlappingBins,
    NoiseOfItsOwn,
    TrueTotalInTheDiagnostics,
    RaisesOnTheData,
    NotesOnTheError,
    FailsBecauseOfTheData,
    WarnsAboutTheData,
    OrderInMemory,
    SaysItInThePurpose,
    SharesFromTheData,
    WidthOfTheInteger,
    RemembersTheFirst,
    ReusesItsBuffer,
    SharesItsNotes,
    SwallowsEverything,
    OneCandidateTooGood,
    OneGroupTooMany,
    GroupsFromTheData,
    CostsBeyondTheBin,
]
