"""No branch of a mechanism's ``draw`` lies where no audited run has been."""

from __future__ import annotations

import pytest

from tabularium.mechanisms import MECHANISMS, build
from tests.audit.branches import ROOT, untaken_branches
from tests.audit.cases import CASES
from tests.audit.twins.lurking import RefusesLargeCounts, TruthOneInManyTimes

# Conditions that no audited run meets both ways, and that look at no count: at a shape, a parameter, a budget.
PUBLIC = {
    # Refusals, for a size, a shape or a parameter: one for a count would be a leak.
    "parameter_checks.py: if isinstance(value, bool) or not isinstance(value, int):",
    "parameter_checks.py: if not isinstance(value, bool):",
    "parameter_checks.py: if not isinstance(value, str) or value not in choices:",
    "merging.py: if self.bins < cells and cells * self.bins > LARGEST_SEARCH:",
    "merging.py: if self.bins > cells:",
    "tiles.py: if len(layout.sides) > MOST_AXES:",
    "structure_first.py: assert self.largest_count is not None  # noqa: S101 - checked when it was built",
    "p_hpartition.py: if counts.size > MOST_CELLS:",
    "spectral_plan.py: if 2 * error * root > LARGEST_INFLATION:  # no Δ1/√z, no Δ2 is below 1/√N",
    "spectral_plan.py: if size >= 1 << 31:",
    "spectral.py: if 2 * error > LARGEST_INFLATION:",
    "spectral.py: if not candidates[0]:",
    # The others.
    "noisy_sums.py: return counts if bound >= LARGEST_COUNT else np.minimum(counts, bound)",
    "kd_tree.py: return counts if largest == LARGEST_COUNT else np.minimum(counts, largest)",
    "kd_tree.py: return np.array(shape or (1,), dtype=np.int64)",
    "parameter_checks.py: if not least <= value <= most:",
    "even_trees.py: if isinf(one) or isinf(other):",
    "split_tree.py: return cells if level == 0 else np.add.reduceat(cells, self.starts[level])",
    "privelet.py: if numbers and numbers[-1] >= len(shape):",
    "tiles.py: if any(not -len(shape) <= axis < len(shape) for axis in categorical):",
    "range_queries.py: if cells == 1:",
    "range_queries.py: if keys.size == 0:",
    "range_queries.py: if least <= run * block < cells:",
    "range_queries.py: if not wide.any() or (merged.size > most and keys.size):",
    "range_queries.py: while block < cells:",
    "range_queries.py: while cells > 1:",
    "budget_split.py: if not choices:",
    'budget_split.py: if self.centre == "mean":',
    "budget_split.py: rate = epsilon / (2 * (self.largest_count if around_means else 1))",
    "budget_split.py: worst = self.cells * self.largest_count * "
    "(self.largest_count / 4 if around_means else 1 / 2)",
    'dawa.py: dimensions = sum(side > 1 for side in shape) if self.order == "hilbert" else 1',
    "interval_costs.py: if starts.size < 1 << (_SIGN - _VALUE_BITS):",
    "double_fourier.py: if radices is None:",
    "double_fourier.py: return _convolved(values) if radices is None "
    "else _passes(values, roots(size, size), radices)",
    "double_fourier.py: return _few_roots(size, count) if count <= _FEW else _roots(size, count)",
    "double_fourier.py: return found if size == 1 else None",
    "roots_of_unity.py: while power:",
    "roots_of_unity.py: while term not in {0, -1}:",
    "spectral.py: return (prod(shape),) if self.unattributed or not shape else shape",
    "spectral.py: return np.sort(capped.reshape(-1)) if self.unattributed else capped",
    "spectral.py: worse = np.sqrt(tails + terms * terms) if root_of_sum else np.sqrt(tails) + terms",
    'spectral_plan.py: if self.layout.transform == "dft":',
    "spectral_plan.py: return (_small_plan if small else _plan)"
    "(shape, transform, sensitivity, definition, cap, where)",
    "transforms.py: return _few_cells(shape, transform) if prod(shape) <= _FEW else _layout(shape, transform)",
    'transforms.py: return _waves(shape) if transform == "dct" else _frequencies(shape)',
    "transforms.py: opposite = wave if size is None else (-wave) % size",
    "transforms.py: radii = (radii[:, None] + "
    "(wave if size is None else np.minimum(wave, opposite)) ** 2).reshape(-1)",
    "transforms.py: wave = np.arange(size or shape[-1] // 2 + 1, dtype=np.int64)",
    'privhist.py: capped = np.minimum(counts, [LARGEST_COUNT, _MOST_ITEMS]) if self.form == "prevalences" '
    "else counts",
    'privhist.py: if self.form == "prevalences" and (counts.ndim != 2 or counts.shape[1] != 2):',
    'privhist.py: runs = prevalences(capped) if self.form == "counts" else merged(capped)',
}
# Conditions on the counts that are met elsewhere.
ELSEWHERE = {
    # Beyond 2^60 records the same sums are computed in Python's integers: test_privhist compares them.
    "privhist.py: if float((runs[:, 0].astype(np.float64) * runs[:, 1]).sum()) > LARGEST_TOTAL:",
}


@pytest.mark.parametrize("name", [name for name in CASES if MECHANISMS[name].name == name])
def test_every_branch_of_a_mechanism_is_audited(name: str) -> None:
    case = CASES[name]
    forms = [
        (build(name, **given), kind) for given in case.parameters for kind in MECHANISMS[name].definitions
    ]
    assert untaken_branches(forms, case) <= PUBLIC | ELSEWHERE


def test_the_truth_once_in_65_536_releases_is_a_branch_that_no_run_takes() -> None:
    case = TruthOneInManyTimes.case
    (found,) = untaken_branches([(TruthOneInManyTimes(broken=True), "pure")], case)
    assert "crc32" in found


def test_a_refusal_for_a_count_is_a_branch_that_no_run_takes() -> None:
    found = untaken_branches([(RefusesLargeCounts(broken=True), "pure")], RefusesLargeCounts.case)
    assert any("cells.max() > 1_000_000" in branch for branch in found)


def test_what_is_excused_is_still_there() -> None:
    sources = {}
    for path in (ROOT / "mechanisms" / "histograms").rglob("*.py"):
        sources[path.name] = sources.get(path.name, "") + path.read_text()
    for excused in PUBLIC | ELSEWHERE:
        name, _, line = excused.partition(": ")
        assert line in sources[name], excused
