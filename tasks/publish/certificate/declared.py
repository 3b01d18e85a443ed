"""What was settled before the data were read: domains, rules, tuning; and what is done after the noise."""

from __future__ import annotations

from tabularium.validations import certificate as said
from tabularium.validations.domains.code_lists import published_name
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.privacy import RowCountRule
from tabularium.validations.spec.source import public_name
from tabularium.validations.spec.tables import ABOVE

_TUNING = (
    "No confidential data were used by this program to choose mechanisms, parameters, shares, levels or "
    "bins: they stand in the spec, whose digest the ledger had before noise was drawn. Choices that a "
    "mechanism makes in view of the data go through the noise channel and are paid for, draw by draw, in "
    "the transcript. What the authors of the spec knew when they wrote it cannot be seen from here; the "
    "spec names "
)
_FINISH = (
    "Each mechanism turns its own noisy numbers into estimates. `identity`, `cells` and `gaussian` leave "
    "them as they are, which is unbiased; others merge, smooth or drop, and are biased towards the cells "
    "that they merge, as their pages say."
)
_PRIOR = (
    "The finest measured counts of some tables are drawn towards those that an earlier release published, as "
    "far as the noisy counts show that it is to be trusted. Biased: changes since that release look smaller "
    "than they are; `tables.NAME.prior.changes` says by how much on average."
)
_ABOVE = (
    "The finest measured counts of some tables are drawn towards what the level above makes expect, each "
    "area made up like the one it lies in, as far as the noisy counts bear it out. Biased: areas look more "
    "alike than they are; `tables.NAME.above.differences` says by how much on average."
)
_CONSISTENCY = (
    "Weighted least squares over levels and tables: linear, and unbiased as far as the measurements are "
    "and their weights do not depend on them."
)
_NONNEGATIVITY = (
    "From the top down each family is moved to the nearest numbers that are not negative and keep the sum "
    "above them. Biased: cells near zero upwards, their larger siblings downwards by as much; totals near "
    "zero upwards by at most 0.4 standard deviations, and far from zero not."
)
_ROUNDING = (
    "To whole numbers that keep the sums, largest remainders first, ties by place and not at random. A "
    "single cell moves by less than 1 in most families; what whole numbers could not meet is named in "
    "rounding_exceptions.txt."
)
_LARGEST = "Sizes above the largest that is possible are set to it; the number of items stays."
_MARGINS = (
    "Margins of error are found last, of what is published; see `margins`. They are made from published "
    "numbers and from public seeds, and cost nothing beyond `of_it_for_margins`."
)
_QUALITY = (
    "Cells are flagged or left blank by published counts and margins alone. What is shown is selected by "
    "that: a mean over the cells that are left is biased upwards."
)


def domains(spec: ReleaseSpec, code_lists: dict[str, str]) -> dict[str, said.Domain]:
    """Return where the cells of every column come from: never from the data."""
    found = {}
    for name, column in spec.columns.items():
        file = None if column.code_list is None else published_name(column.code_list)
        found[name] = said.Domain(
            kind=column.written_as,
            from_="the spec" if file is None else "a public code list",
            file=file,
            sha256=None if file is None else code_lists[file],
            nulls=column.nulls,
            invalid=column.invalid,
        )
    return found


def look_ups(spec: ReleaseSpec, digests: dict[str, str]) -> tuple[said.LookUp, ...]:
    """Return where columns were looked up: in public tables, by digest, and in tables of the privacy unit."""
    return tuple(
        said.LookUp(
            name=name,
            is_="of the privacy unit" if look.public is None else "public and fixed",
            reason=look.public,
            sha256=digests.get(public_name(name)),
            unit=look.unit,
            key=look.key,
            from_=look.looked_up,
        )
        for name, look in spec.lookups.items()
    )


def validation(spec: ReleaseSpec, tried: int) -> said.Validation:
    """Return what the input was judged by, and what of it was paid for, ``tried`` times."""
    rules = []
    for rule in spec.rules:
        noisy = isinstance(rule, RowCountRule) and rule.noisy is not None
        share = rule.noisy.share if isinstance(rule, RowCountRule) and rule.noisy is not None else 0
        rules.append(
            said.Rule(
                rule=rule.name,
                severity=rule.severity,
                judged="a noisy number" if noisy else "exactly",
                charged=spec.privacy.budget * share * tried,
                outside_the_guarantee=not noisy and rule.severity == "stop",
            )
        )
    return said.Validation(rules=tuple(rules), max_rejected=_limit(spec), max_rejected_charged="0")


def _limit(spec: ReleaseSpec) -> str:
    limit = spec.source.max_rejected
    return str(limit) if isinstance(limit, int) else f"{float(100 * limit):g}%"


def tuning(spec: ReleaseSpec) -> said.Tuning:
    """Return which data were used to choose mechanisms and parameters: a published release, or none."""
    if spec.tuning is None:
        return said.Tuning(data=(), words=f"{_TUNING}no data for it.")
    named = f"the published release {spec.tuning.release}, which costs nothing to look at, and no other data."
    on = said.TunedOn(release=spec.tuning.release, certificate=spec.tuning.certificate)
    return said.Tuning(data=(on,), words=f"{_TUNING}{named}")


def postprocessing(spec: ReleaseSpec, version: int) -> said.PostProcessing:
    """Return the steps after the noise, in their order, and how each biases what is published."""
    does = spec.postprocessing
    cut = any(each.largest_size(spec.privacy) is not None for each in spec.histograms)
    towards = {each.prior for each in spec.tables} - {None}
    steps: list[tuple[said.StepName, bool, str]] = [("mechanism", True, _FINISH)]
    if towards - {ABOVE}:
        steps.append(("prior", True, _PRIOR))
    if ABOVE in towards:
        steps.append(("above", True, _ABOVE))
    steps += [
        ("consistency", does.consistency, _CONSISTENCY),
        ("nonnegativity", does.nonnegativity, _NONNEGATIVITY),
        ("rounding", does.rounding, _ROUNDING),
        ("largest_size", cut, _LARGEST),
        ("margins", True, _MARGINS),
        ("quality", spec.publication.quality is not None, _QUALITY),
    ]
    return said.PostProcessing(
        version=version,
        steps=tuple(said.Step(step=step, done=done, bias=bias) for step, done, bias in steps),
    )
