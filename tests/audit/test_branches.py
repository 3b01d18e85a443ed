"""No branch of a mechanism's ``draw`` lies where no audited run has been."""

from __future__ import annotations

from types import CodeType

import pytest

from tabularium.mechanisms import MECHANISMS, build
from tests.audit.branches import ROOT, untaken_branches
from tests.audit.cases import CASES
from tests.audit.twins.small import RefusesLargeCounts, TruthOneInManyTimes

# Conditions that no audited run meets both ways, and that look at no count: at a shape, a parameter, a budget;
# each by its function.
PUBLIC = {
    # Refusals, for a size, a shape or a parameter: one for a count would be a leak.
    "whole_number: if isinstance(value, bool) or not isinstance(value, int):",
    "switch: if not isinstance(value, bool):",
    "one_of: if not isinstance(value, str) or value not in choices:",
    "Merging.check: if self.bins < cells and cells * self.bins > LARGEST_SEARCH:",
    "Merging.check: if self.bins > cells:",
    "Layout.of: if len(layout.sides) > MOST_AXES:",
    "StructureFirst.clipped_at: assert self.largest_count is not None  # noqa: S101 - checked when it was built",
    "PHPartition.draw: if counts.size > MOST_CELLS:",
    "_plan: if 2 * error * root > LARGEST_INFLATION:  # no Δ1/√z, no Δ2 is below 1/√N",
    "_plan: if size >= 1 << 31:",
    "choose_radii: if 2 * error > LARGEST_INFLATION:",
    "choose_radii: if not candidates[0]:",
    # The others.
    "addable: return counts if bound >= LARGEST_COUNT else np.minimum(counts, bound)",
    "within_sums: return counts if largest == LARGEST_COUNT else np.minimum(counts, largest)",
    "sides: return np.array(shape or (1,), dtype=np.int64)",
    "whole_number: if not least <= value <= most:",
    "_parallel: if isinf(one) or isinf(other):",
    "SplitTree.sums: return cells if level == 0 else np.add.reduceat(cells, self.starts[level])",
    "Privelet.axes_for: if numbers and numbers[-1] >= len(shape):",
    "axes_of: if any(not -len(shape) <= axis < len(shape) for axis in categorical):",
    "random_ranges: if cells == 1:",
    "random_ranges: if keys.size == 0:",
    "tilings: if least <= run * block < cells:",
    "block_runs: if not wide.any() or (merged.size > most and keys.size):",
    "tilings: while block < cells:",
    "block_runs: while cells > 1:",
    "Bound.log_misplaced: if not choices:",
    'Bound.log_noise: if self.centre == "mean":',
    "Bound.log_misplaced: rate = epsilon / (2 * (self.largest_count if around_means else 1))",
    "Bound.log_misplaced: worst = self.cells * self.largest_count * "
    "(self.largest_count / 4 if around_means else 1 / 2)",
    'Dawa._step: dimensions = sum(side > 1 for side in shape) if self.order == "hilbert" else 1',
    "_sorted_within: if starts.size < 1 << (_SIGN - _VALUE_BITS):",
    "_units: if radices is None:",
    "_rows: return _convolved(values) if radices is None else _passes(values, roots(size, size), radices)",
    "roots: return _few_roots(size, count) if count <= _FEW else _roots(size, count)",
    "factors: return result if size == 1 else None",
    "_arctangent: while power:",
    "root: while term not in {0, -1}:",
    "Spectral._shape: return (prod(shape),) if self.unattributed or not shape else shape",
    "Spectral._bounded: return np.sort(capped.reshape(-1)) if self.unattributed else capped",
    "choose_radii: worse = np.sqrt(tails + terms * terms) if root_of_sum else np.sqrt(tails) + terms",
    'Plan.bound: if self.layout.transform == "dft":',
    'Plan.bounds: if self.layout.transform == "dft":',
    "plan_for: return (_small_plan if small else _plan)"
    "(shape, transform, sensitivity, definition, cap, where)",
    "layout: return _few_cells(shape, transform) if prod(shape) <= _FEW else _layout(shape, transform)",
    '_layout: return _waves(shape) if transform == "dct" else _frequencies(shape)',
    "_frequencies: opposite = wave if size is None else (-wave) % size",
    "_frequencies: radii = (radii[:, None] + "
    "(wave if size is None else np.minimum(wave, opposite)) ** 2).reshape(-1)",
    "_frequencies: wave = np.arange(size or shape[-1] // 2 + 1, dtype=np.int64)",
    'PrivHist._runs: capped = np.minimum(counts, [LARGEST_COUNT, _MOST_ITEMS]) if self.form == "prevalences" '
    "else counts",
    'PrivHist._runs: if self.form == "prevalences" and (counts.ndim != 2 or counts.shape[1] != 2):',
    'PrivHist._runs: runs = prevalences(capped) if self.form == "counts" else merged(capped)',
}
# Conditions on the counts that are met elsewhere.
ELSEWHERE = {
    # Beyond 2^60 records the same sums are computed in Python's integers: test_privhist compares them.
    "PrivHist._runs: if float((runs[:, 0].astype(np.float64) * runs[:, 1]).sum()) > LARGEST_SUM:",
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
    lines = set()
    for path in (ROOT / "mechanisms").rglob("*.py"):
        text = path.read_text()
        source, waiting = text.splitlines(), [compile(text, path, "exec")]
        while waiting:
            code = waiting.pop()
            waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
            lines |= {
                f"{code.co_qualname}: {source[line - 1].strip()}" for *_, line in code.co_lines() if line
            }
    assert lines >= PUBLIC | ELSEWHERE
