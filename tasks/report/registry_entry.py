"""An entry for OpenDP's Differential Privacy Deployments Registry.

The fields are those of the registry's schema (opendp/deployments-registry-data, deployments-schema.yaml).
What the certificate does not say is left out, and what the registry asks for all the same stands in a remark
at the top: a person fills it in before the entry is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from tabularium.tasks.publish.guarantee import at_most
from tabularium.validations.certificate import Audit, BudgetPart, Certificate, Measured

_VARIANTS = {"pure": "Pure DP", "zcdp": "Zero-concentrated DP"}
_ASKED = {  # fields that the registry requires, and that may be unknown
    "basic": ("data_curators", "description", "intended_use", "data_product_region"),
    "administrative": ("registry_authors", "tier"),
}


def registry_entry(told: Certificate, *, earlier: bool = False) -> bytes:
    """Return the entry of a certificate as YAML; ``earlier``: whether the product has earlier releases."""
    parts = {
        "basic": _basic(told),
        "dp_variant": _variant(told),
        "privacy_loss": _loss(told),
        "deployment_model": _model(told, earlier=earlier),
        "implementation": _implementation(told),
        "administrative": {"evidence_sources": _sources(told), "status": "Draft"},
    }
    kept = {name: {key: value for key, value in part.items() if value} for name, part in parts.items()}
    missing = [name for part, names in _ASKED.items() for name in names if name not in kept[part]]
    curators = [] if "data_curators" in missing else ["data_curator_type"]
    entry = {"url_slug": _slug(f"{told.product}-{told.period}"), "deployment": kept}
    text = yaml.dump(entry, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=100)
    remark = (
        f"# Made from the certificate. To be filled in by hand: {', '.join([*curators, *missing])}.\n"
        "# What is a draft is the entry, not the release.\n"
    )
    return (remark + text).encode()


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists below their key."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _symbol(told: Certificate) -> str:
    return "epsilon" if told.privacy.definition == "pure" else "rho"


def _basic(told: Certificate) -> dict[str, Any]:
    about = told.about
    return {
        "name": f"{about.title or told.product}, {told.period}",
        "data_curators": None if about.curator is None else [{"data_curator_name": about.curator.name}],
        "description": about.description,
        "data_product_type": "Summary statistics",
        "data_product_region": about.region and (about.region.label or about.region.code),
        "publication_date": told.created[:10],
    }


def _variant(told: Certificate) -> dict[str, Any]:
    columns = ", ".join(told.domains)
    population = told.privacy.unit.population
    return {
        "variant_name": _VARIANTS[told.privacy.definition],
        "data_domain": f"Data sets of records of {population}, each with a value of a public list or range "
        f"in every column that is used: {columns}.",
        "unprotected_quantities": _points(
            fact.what for fact in told.outside_the_guarantee if fact.kind != "operators"
        ),
    }


def _loss(told: Certificate) -> dict[str, Any]:
    privacy = told.privacy
    unit = privacy.unit.entity
    symbol = _symbol(told)
    amount = privacy.loss
    how = "has or lacks" if privacy.relation == "add-remove" else "has another value for"
    most = privacy.max_contributions
    records = f", of which at most {most} records are counted" if unit != "record" else ""
    details = [f"{symbol} is exactly {amount} for one {unit}."]
    details += [
        f"This implies epsilon = {at_most(each.epsilon)} at delta = {each.delta}."
        for each in privacy.epsilon_delta or ()
    ]
    details.append(privacy.conversion.words)
    if told.ledger.rests_on:
        earlier = told.ledger.rests_on.release_id
        details.append(f"Release {earlier} paid for it; this one is made from its noisy numbers again.")
    return {
        "privacy_unit": unit,
        "privacy_unit_details": f"Two data sets are adjacent where one {how} one {unit}{records}. Compared "
        "are those that both satisfy the quantities that are listed as unprotected. "
        + " ".join(privacy.reading),
        "privacy_parameters": {symbol: float(amount)},
        "privacy_parameters_details": " ".join(details),
    }


def _model(told: Certificate, *, earlier: bool) -> dict[str, Any]:
    account, symbol = told.account, _symbol(told)
    used, charges = account.cumulative.used, account.cumulative.charges
    return {
        "model_name": "Central",
        "trust_assumptions": _points(told.security.words),
        "release_type": "Many releases" if earlier else None,
        "release_type_details": f"All releases of the account {account.name} may cost one "
        f"{account.entity} at most {symbol} = {account.cap}; {charges} charges, up to this one, cost "
        f"{used}.",
        "access_type": "Non-interactive",
    }


def _implementation(told: Certificate) -> dict[str, Any]:
    share = f"{float(told.confidence):.0%}"
    steps = (each for each in told.postprocessing.steps if each.done)
    return {
        "preprocessing_and_hyperparameter_tuning": _points(_before(told)),
        "mechanisms": _points([*_noise(told), *_safeguards(told), _made_by(told)]),
        "composition": _points([*told.composition.words, *_parts(told)]),
        "post_processing": _points(f"{each.step}: {each.bias}" for each in steps),
        "justification": _points(_audited(told.audits)),
        "utility": _points([f"Margins of error are stated at {share}.", *told.margins.values()]),
        "additional_information": f"Release {told.release_id}; SHA-256 of the release spec: "
        f"{told.spec_digest}.",
    }


def _before(told: Certificate) -> Iterator[str]:
    """Yield what was done to the data, or with them, before anything was measured."""
    privacy, judged = told.privacy, told.validation
    if privacy.max_contributions > 1:
        unit = privacy.unit.entity
        yield f"At most {privacy.max_contributions} records of one {unit} are counted."
    yield f"Records that do not fit the spec: refused if there are more than {judged.max_rejected}."
    for rule in judged.rules:
        paid = f"for {_symbol(told)} = {rule.charged}" if rule.charged else "uncharged"
        how = "exactly" if rule.judged == "exactly" else f"by {rule.judged}"
        yield f"Rule {rule.rule} ({rule.severity}): judged {how}, {paid}."
    yield told.tuning.words


def _noise(told: Certificate) -> Iterator[str]:
    """Yield what was drawn for each measurement: the mechanism, and the distribution of its noise."""
    tries = len(told.ledger.tally_charges)
    for each in told.measured:
        times = f", in {tries} tries" if each.mechanism is None and tries > 1 else ""
        drawn = dict.fromkeys(draw.noise.replace("_", " ") for draw in each.draws)
        how = "a noisy count" if each.mechanism is None else f"mechanism {each.mechanism}"
        yield f"{_named(each)}: {how}, drawing {', '.join(drawn)}{times}"


def _safeguards(told: Certificate) -> Iterator[str]:
    random = told.randomness
    yield f"Randomness: {random.generator}; seeded by {random.seeded_by}; in {random.arithmetic}."
    for each in told.side_channels:
        yield f"Side channel, {each.channel}: {each.considered}"


def _made_by(told: Certificate) -> str:
    software, code = told.software, told.code
    commit = f", commit {code.commit}" if code.commit else ""
    return (
        f"Implemented by Tabularium {software['tabularium-dp']}{commit} (SHA-256 {code.digest}) on Python "
        f"{software['python']}."
    )


def _parts(told: Certificate) -> Iterator[str]:
    """Yield what each part of the budget costs one record: together, they are all of it."""
    tries = len(told.ledger.tally_charges)
    for each in told.allocation:
        times = tries if each.kind == "tally" else 1
        many = f", in {times} tries" if times > 1 else ""
        yield f"{_named(each)}: {_symbol(told)} = {each.per_record * times} for one record{many}"


def _named(part: BudgetPart | Measured) -> str:
    return ", ".join(filter(None, (part.name, part.level)))


def _audited(audits: Mapping[str, Audit | None]) -> Iterator[str]:
    for name, found in audits.items():
        if found is None:
            yield f"{name}: no audit under this definition is recorded."
            continue
        replayed, shown = found.replayed, found.shown
        yield (
            f"{name}: audited on {found.date}. Replayed under the same outputs, the worst of "
            f"{replayed.pairs} pairs of neighbours lost {replayed.largest_share:g} of its budget (more "
            "than 1 would be a leak); outputs alone show a loss of at least "
            f"{shown.at_least:g}, where {shown.budget} is allowed."
        )


def _sources(told: Certificate) -> dict[str, Any] | None:
    about = told.about
    if about.url is None:
        return None
    return {
        "data_product": {
            "evidence_source_type": "Formal publication by the deploying organization",
            "misc": {"title": about.title or told.product, "url": about.url},
        }
    }


def _points(said: Iterable[str]) -> str:
    """Return sentences as a list in Markdown; one alone as it is."""
    found = list(said)
    return found[0] if len(found) == 1 else "".join(f"- {each}\n" for each in found)
