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


def registry_entry(certificate: Certificate, *, earlier: bool = False) -> bytes:
    """Return the entry of a certificate as YAML; ``earlier``: whether the product has earlier releases."""
    parts = {
        "basic": _basic(certificate),
        "dp_variant": _variant(certificate),
        "privacy_loss": _loss(certificate),
        "deployment_model": _model(certificate, earlier=earlier),
        "implementation": _implementation(certificate),
        "administrative": {"evidence_sources": _sources(certificate), "status": "Draft"},
    }
    kept = {name: {key: value for key, value in part.items() if value} for name, part in parts.items()}
    missing = [name for part, names in _ASKED.items() for name in names if name not in kept[part]]
    curators = [] if "data_curators" in missing else ["data_curator_type"]
    entry = {"url_slug": _slug(f"{certificate.product}-{certificate.period}"), "deployment": kept}
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


def _symbol(certificate: Certificate) -> str:
    return "epsilon" if certificate.privacy.definition == "pure" else "rho"


def _basic(certificate: Certificate) -> dict[str, Any]:
    about = certificate.about
    return {
        "name": f"{about.title or certificate.product}, {certificate.period}",
        "data_curators": None if about.curator is None else [{"data_curator_name": about.curator.name}],
        "description": about.description,
        "data_product_type": "Summary statistics",
        "data_product_region": about.region and (about.region.label or about.region.code),
        "publication_date": certificate.created[:10],
    }


def _variant(certificate: Certificate) -> dict[str, Any]:
    columns = ", ".join(certificate.domains)
    population = certificate.privacy.unit.population
    return {
        "variant_name": _VARIANTS[certificate.privacy.definition],
        "data_domain": f"Data sets of records of {population}, each with a value of a public list or range "
        f"in every column that is used: {columns}.",
        "unprotected_quantities": _points(
            fact.what for fact in certificate.outside_the_guarantee if fact.kind != "operators"
        ),
    }


def _loss(certificate: Certificate) -> dict[str, Any]:
    privacy = certificate.privacy
    unit = privacy.unit.entity
    symbol = _symbol(certificate)
    amount = privacy.loss
    how = "has or lacks" if privacy.relation == "add-remove" else "has another value for"
    most = privacy.max_contributions
    records = f", and at most {most} of its records are counted" if unit != "record" else ""
    details = [f"{symbol} is exactly {amount} for one {unit}."]
    details += [
        f"This implies epsilon = {at_most(pair.epsilon)} at delta = {pair.delta}."
        for pair in privacy.epsilon_delta or ()
    ]
    details.append(privacy.conversion.words)
    if certificate.ledger.rests_on:
        earlier = certificate.ledger.rests_on.release_id
        details.append(f"Release {earlier} paid for it; this one is made from its noisy numbers again.")
    return {
        "privacy_unit": unit,
        "privacy_unit_details": f"Two data sets are adjacent where one {how} one {unit}{records}. Compared "
        "are those that both satisfy the quantities that are listed as unprotected. "
        + " ".join(privacy.reading),
        "privacy_parameters": {symbol: float(amount)},
        "privacy_parameters_details": " ".join(details),
    }


def _model(certificate: Certificate, *, earlier: bool) -> dict[str, Any]:
    account, symbol = certificate.account, _symbol(certificate)
    used, charges = account.cumulative.used, account.cumulative.charges
    return {
        "model_name": "Central",
        "trust_assumptions": _points(certificate.security.words),
        "release_type": "Many releases" if earlier else None,
        "release_type_details": f"All releases of the account {account.name} may cost one "
        f"{account.entity} at most {symbol} = {account.cap}; {charges} charges, up to this one, cost "
        f"{used}.",
        "access_type": "Non-interactive",
    }


def _implementation(certificate: Certificate) -> dict[str, Any]:
    share = f"{float(certificate.confidence):.0%}"
    steps = (step for step in certificate.postprocessing.steps if step.done)
    return {
        "preprocessing_and_hyperparameter_tuning": _points(_before(certificate)),
        "mechanisms": _points([*_noise(certificate), *_safeguards(certificate), _made_by(certificate)]),
        "composition": _points([*certificate.composition.words, *_parts(certificate)]),
        "post_processing": _points(f"{step.step}: {step.bias}" for step in steps),
        "justification": _points(_audited(certificate.audits)),
        "utility": _points([f"Margins of error are stated at {share}.", *certificate.margins.values()]),
        "additional_information": f"Release {certificate.release_id}; SHA-256 of the release spec: "
        f"{certificate.spec_digest}.",
    }


def _before(certificate: Certificate) -> Iterator[str]:
    """Yield the steps on the data before any measurement."""
    privacy, judged = certificate.privacy, certificate.validation
    if privacy.max_contributions > 1:
        unit = privacy.unit.entity
        yield f"At most {privacy.max_contributions} records of one {unit} are counted."
    yield f"Records that do not fit the spec: refused if there are more than {judged.max_rejected}."
    for rule in judged.rules:
        paid = f"for {_symbol(certificate)} = {rule.charged}" if rule.charged else "uncharged"
        how = "exactly" if rule.judged == "exactly" else f"by {rule.judged}"
        yield f"Rule {rule.rule} ({rule.severity}): judged {how}, {paid}."
    yield certificate.tuning.words


def _noise(certificate: Certificate) -> Iterator[str]:
    """Yield the draws of each measurement: the mechanism, and the distribution of its noise."""
    tries = len(certificate.ledger.tally_charges)
    for measured in certificate.measured:
        times = f", in {tries} tries" if measured.mechanism is None and tries > 1 else ""
        drawn = dict.fromkeys(draw.noise.replace("_", " ") for draw in measured.draws)
        how = "a noisy count" if measured.mechanism is None else f"mechanism {measured.mechanism}"
        yield f"{_named(measured)}: {how}, drawing {', '.join(drawn)}{times}"


def _safeguards(certificate: Certificate) -> Iterator[str]:
    random = certificate.randomness
    yield f"Randomness: {random.generator}; seeded by {random.seeded_by}; in {random.arithmetic}."
    for channel in certificate.side_channels:
        yield f"Side channel, {channel.channel}: {channel.considered}"


def _made_by(certificate: Certificate) -> str:
    software, code = certificate.software, certificate.code
    commit = f", commit {code.commit}" if code.commit else ""
    return (
        f"Implemented by Tabularium {software['tabularium-dp']}{commit} (SHA-256 {code.digest}) on Python "
        f"{software['python']}."
    )


def _parts(certificate: Certificate) -> Iterator[str]:
    """Yield the cost of each part of the budget for one record: together, they are all of it."""
    tries = len(certificate.ledger.tally_charges)
    for part in certificate.allocation:
        times = tries if part.kind == "tally" else 1
        many = f", in {times} tries" if times > 1 else ""
        yield f"{_named(part)}: {_symbol(certificate)} = {part.per_record * times} for one record{many}"


def _named(part: BudgetPart | Measured) -> str:
    return ", ".join(filter(None, (part.name, part.level)))


def _audited(audits: Mapping[str, Audit | None]) -> Iterator[str]:
    for name, audit in audits.items():
        if audit is None:
            yield f"{name}: no audit under this definition is recorded."
            continue
        replayed, shown = audit.replayed, audit.shown
        yield (
            f"{name}: audited on {audit.date}. Replayed under the same outputs, the worst of "
            f"{replayed.pairs} pairs of neighbours lost {replayed.largest_share:g} of its budget (more "
            "than 1 would be a leak); the outputs by themselves show a loss of at least "
            f"{shown.at_least:g}, where {shown.budget} is allowed."
        )


def _sources(certificate: Certificate) -> dict[str, Any] | None:
    about = certificate.about
    if about.url is None:
        return None
    return {
        "data_product": {
            "evidence_source_type": "Formal publication by the deploying organization",
            "misc": {"title": about.title or certificate.product, "url": about.url},
        }
    }


def _points(points: Iterable[str]) -> str:
    """Return sentences as a list in Markdown; a single one as it is."""
    listed = list(points)
    return listed[0] if len(listed) == 1 else "".join(f"- {point}\n" for point in listed)
