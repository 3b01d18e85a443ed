"""A nation of regions, districts and meshblocks whose sizes are as uneven as real ones.

Codes are ``NAT``, ``R01``, ``D001``, ``M0000001``; a letter first, so that no reader takes them for
numbers. All names are invented.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabularium.lab.sample.quantile_tables import Floats, Ints

MOST_MESHBLOCKS = 1_000_000
MOST_DISTRICTS = 999
DEFAULT_MESHBLOCKS = (40, 100_000)  # at least, at most; in between one for every hundred rows
LEVELS = ("nation", "region", "district", "meshblock")
NATION = "NAT"
CHARACTERS = ("city", "suburb", "town", "country")

REGIONS = (
    "Norrund", "Aster Coast", "Velmark", "High Tarn", "Ostrava Bay", "Kelland", "Lower Irith", "Southmere",
    "Brennhold", "Cape Luring", "Upper Irith", "Gray Marches", "Tessaly", "Westering", "Morrow Isles",
    "Dunvale",
)  # fmt: skip
FIRST = (
    "Alder", "Birk", "Corr", "Dray", "Elm", "Farn", "Gold", "Hald", "Inver", "Jarr", "Kest", "Lang", "Marl",
    "Nether", "Oak", "Pell", "Quarr", "Rook", "Silver", "Thorn", "Ulver", "Vane", "Wick", "Yarr", "Zell",
    "Amber", "Bracken", "Cold", "Dun", "East", "Fox", "Glen", "Hazel", "Iron", "Kirk", "Loch", "Mill",
    "North", "Osier", "Pine",
)  # fmt: skip
LAST = (
    "ford", "wick", "ham", "stead", "mere", "field", "gate", "haven", "moor", "ridge", "brook", "worth",
    "combe", "ley", "by", "den", "port", "wood", "cross", "well", "bank", "holm", "side", "fell", "stow",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Geography:
    """Every area of the nation, level by level; the places of a lower level follow the order of the upper.

    ``region_of`` (districts,) and ``district_of`` (meshblocks,) are positions one level up. Of each
    meshblock: its ``share`` of the households, zero for some; its ``character``, into :data:`CHARACTERS`; and
    what its ``prosperity`` adds to the logarithm of an income. The names of districts are all different.
    """

    regions: int
    region_of: Ints
    district_of: Ints
    share: Floats
    character: Ints
    prosperity: Floats
    district_names: tuple[str, ...]

    @property
    def districts(self) -> int:
        """Number of districts."""
        return len(self.region_of)

    @property
    def meshblocks(self) -> int:
        """Number of meshblocks."""
        return len(self.district_of)

    def codes(self, level: str) -> list[str]:
        """Return the codes of one level, in order."""
        if level == "nation":
            return [NATION]
        letter, digits, number = {
            "region": ("R", 2, self.regions),
            "district": ("D", 3, self.districts),
            "meshblock": ("M", 7, self.meshblocks),
        }[level]
        return [f"{letter}{i:0{digits}d}" for i in range(1, number + 1)]

    def code_list(self, lowest: str) -> list[tuple[str, str, str]]:
        """Return (code, label, parent) of every area down to the level ``lowest``; the root has no parent."""
        regions, districts, blocks = (self.codes(level) for level in LEVELS[1:])
        rows = [(NATION, "Nation", "")]
        rows += [(code, REGIONS[i], NATION) for i, code in enumerate(regions)]
        rows += [
            (code, self.district_names[i], regions[self.region_of[i]]) for i, code in enumerate(districts)
        ]
        if lowest == "meshblock":
            parents = self.district_of.tolist()
            rows += [
                (code, f"{self.district_names[d]} {code[1:]}", districts[d])
                for code, d in zip(blocks, parents, strict=True)
            ]
        return rows


def default_meshblocks(rows: int) -> int:
    """Return how many meshblocks a census of ``rows`` persons gets when nobody says."""
    least, most = DEFAULT_MESHBLOCKS
    return max(least, min(most, rows // 100))


def draw_geography(rng: np.random.Generator, meshblocks: int) -> Geography:
    """Draw a nation with exactly ``meshblocks`` meshblocks, 1 to a million; no district is empty."""
    districts = max(1, min(meshblocks, MOST_DISTRICTS, round(1.5 * meshblocks**0.5)))
    regions = max(1, min(districts, len(REGIONS), round(1.5 * districts**0.5)))
    region_of = _spread(rng, districts, 1 / np.arange(1, regions + 1))  # Zipf: one capital, many provinces
    town = rng.lognormal(0.0, 0.9, districts)
    district_of = _spread(rng, meshblocks, town)

    # The denser the district, the more of it is city.
    rank = np.argsort(np.argsort(town)) / districts
    lean = np.clip(rank[district_of] + rng.normal(0, 0.25, meshblocks), 0, 0.999)
    character = np.digitize(-lean, [-0.75, -0.4, -0.15])

    size = rng.lognormal(0.0, 0.7, meshblocks) * np.array([1.6, 1.2, 0.9, 0.5])[character]
    size[rng.random(meshblocks) < 0.01] *= 12  # towers and camps: the long tail
    size[rng.random(meshblocks) < 0.04] = 0  # harbours, parks and lakes: nobody lives there
    if not size.any():
        size[0] = 1.0
    prosperity = (
        rng.normal(0, 0.12, regions)[region_of][district_of]
        + rng.normal(0, 0.10, districts)[district_of]
        + rng.normal(0, 0.20, meshblocks)
        + np.array([0.10, 0.08, -0.08, -0.05])[character]
    )
    names = rng.permutation(len(FIRST) * len(LAST))[:districts]
    return Geography(
        regions=regions,
        region_of=region_of,
        district_of=district_of,
        share=size / size.sum(),
        character=character.astype(np.int64),
        prosperity=prosperity,
        district_names=tuple(FIRST[i // len(LAST)] + LAST[i % len(LAST)] for i in names.tolist()),
    )


def _spread(rng: np.random.Generator, children: int, weights: Floats) -> Ints:
    """Give each parent a share of the children by weight, at least one; (children,) ascending positions."""
    parents = len(weights)
    families = 1 + rng.multinomial(children - parents, weights / weights.sum())
    return np.repeat(np.arange(parents), families)
