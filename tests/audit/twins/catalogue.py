"""All broken twins.

Twins live in the tests only. Each stands for a mistake that has been published, or shipped, or is easy to
make; the sound form of the same mechanism stands beside it.
"""

from __future__ import annotations

from tests.audit.twins.leaks import (
    NoiseOfItsOwn,
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
from tests.audit.twins.lurking import (
    LogsTheTotal,
    LogsUnderABorrowedName,
    OnlyBelowATwentieth,
    OnlyOnLargeTables,
    OnlyWhereNobodyWatches,
    RefusesLargeCounts,
    RefusesTheWitness,
    RoundsItsOwnNoise,
    TellsTheThousands,
    TotalIfItIsLarge,
)
from tests.audit.twins.memory import (
    PeekingFinish,
    RemembersByTheNoise,
    RemembersTheFirst,
    RemembersTheFirstEver,
    ReusesItsBuffer,
    SharesItsNotes,
)
from tests.audit.twins.papers import BarePhase, CapFromTheData, DrawPerBin, UnboundedDepth
from tests.audit.twins.twin import Twin

LURKING: list[type[Twin]] = [
    TotalIfItIsLarge,
    TellsTheThousands,
    RoundsItsOwnNoise,
    OnlyOnLargeTables,
    OnlyBelowATwentieth,
    OnlyWhereNobodyWatches,
    RemembersTheFirstEver,
    RemembersByTheNoise,
    LogsTheTotal,
    LogsUnderABorrowedName,
    RefusesLargeCounts,
    RefusesTheWitness,
]
TWINS: list[type[Twin]] = [
    *LURKING,
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
