"""All broken twins.

Twins live in the tests only. Each stands for a mistake that has been published, or shipped, or is easy to
make; the sound form of the same mechanism stands beside it.
"""

from __future__ import annotations

from tests.audit.twins.leaks import (
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
from tests.audit.twins.losses import (
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
from tests.audit.twins.memory import (
    PeekingFinish,
    RemembersTheFirst,
    ReusesItsBuffer,
    SharesItsNotes,
)
from tests.audit.twins.papers import BarePhase, CapFromTheData, DrawPerBin, UnboundedDepth
from tests.audit.twins.twin import Twin

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
