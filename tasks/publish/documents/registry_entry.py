"""``registry.yaml``: an entry for OpenDP's Differential Privacy Deployments Registry.

The fields are those of the registry's schema (opendp/deployments-registry-data, deployments-schema.yaml).
What the certificate does not say is left out, and what the registry asks for all the same stands in a remark
at the top: a person fills it in before the entry is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from validations.spec.model import ReleaseSpec

_VARIANTS = {"pure": "Pure DP", "zcdp": "Zero-concentrated DP"}
_ASKED = {  # fields that the registry requires, and that may be unknown
    "basic": ("data_curators", "description", "intended_use", "data_product_region"),
    "administrative": ("registry_authors", "tier"),
}
_STEPS = {
    "consistency": "Measurements that overlap were made to agree, by weighted least squares.",
    "nonnegativity": "Counts were made zero or more.",
    "rounding": "Counts were made whole numbers.",
}


def registry_entry(aside: Path, told: Mapping[str, Any], last: Path | None) -> bytes:
    """Return the entry as YAML.

    Parameters
    ----------
    told
        The certificate.
    last
        The folder of the product's last release: where there is one, the product has many releases.
    """
    spec = ReleaseSpec.model_validate(told["spec"])
    parts = {
        "basic": _basic(told),
        "dp_variant": _variant(told),
        "privacy_loss": _loss(told),
        "deployment_model": {
            "model_name": "Central",
            "release_type": None if last is None else "Many releases",
            "access_type": "Non-interactive",
        },
        "implementation": _implementation(told, spec),
        "administrative": {"evidence_sources": _sources(told), "status": "Draft"},
    }
    kept = {name: {key: value for key, value in part.items() if value} for name, part in parts.items()}
    missing = [name for part, names in _ASKED.items() for name in names if name not in kept[part]]
    curators = [] if "data_curators" in missing else ["data_curator_type"]
    entry = {"url_slug": _slug(f"{told['product']}-{told['period']}"), "deployment": kept}
    text = yaml.dump(entry, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=100)
    remark = f"# Made from the certificate. To be filled in by hand: {', '.join([*curators, *missing])}.\n"
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


def _about(told: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = told["spec"].get("about", {})
    return found


def _basic(told: Mapping[str, Any]) -> dict[str, Any]:
    about = _about(told)
    curator, region = about.get("curator", {}).get("name"), about.get("region", {})
    return {
        "name": f"{about.get('title', told['product'])}, {told['period']}",
        "data_curators": [{"data_curator_name": curator}] if curator else None,
        "description": about.get("description"),
        "data_product_type": "Summary statistics",
        "data_product_region": region.get("label") or region.get("code"),
        "publication_date": told["created"][:10],
    }


def _variant(told: Mapping[str, Any]) -> dict[str, Any]:
    columns = ", ".join(told["spec"]["columns"])
    population = told["privacy"]["unit"]["population"]
    return {
        "variant_name": _VARIANTS[told["privacy"]["definition"]],
        "data_domain": f"Data sets of records of {population}, each with a value of a public list or range "
        f"in every column that is used: {columns}.",
        "unprotected_quantities": _points(
            fact["what"] for fact in told["outside_the_guarantee"] if fact["kind"] != "operators"
        ),
    }


def _loss(told: Mapping[str, Any]) -> dict[str, Any]:
    privacy = told["privacy"]
    unit = privacy["unit"]["entity"]
    symbol, amount = next((name, privacy[name]) for name in ("epsilon", "rho") if name in privacy)
    how = "has or lacks" if privacy["relation"] == "add-remove" else "has another value for"
    most = privacy["max_contributions"]
    records = f", of which at most {most} records are counted" if unit != "record" else ""
    details = [f"{symbol} is exactly {amount} for one {unit}."]
    details += [
        f"This implies epsilon = {each['epsilon']:.4g} at delta = {each['delta']}."
        for each in privacy.get("epsilon_delta", ())
    ]
    if told["ledger"]["rests_on"]:
        earlier = told["ledger"]["rests_on"]["release_id"]
        details.append(f"Release {earlier} paid for it; this one is made from its noisy numbers again.")
    return {
        "privacy_unit": unit,
        "privacy_unit_details": f"Two data sets are adjacent where one {how} one {unit}{records}. Compared "
        "are those that both satisfy the quantities that are listed as unprotected. "
        + " ".join(privacy["reading"]),
        "privacy_parameters": {symbol: float(Fraction(amount))},
        "privacy_parameters_details": " ".join(details),
    }


def _implementation(told: Mapping[str, Any], spec: ReleaseSpec) -> dict[str, Any]:
    software = told["software"]
    most = spec.privacy.max_contributions
    cut = f"At most {most} records of one {spec.privacy.unit.called} are counted."
    steps = [said for name, said in _STEPS.items() if getattr(spec.postprocessing, name)]
    share = f"{float(Fraction(told['confidence'])):.0%}"
    return {
        "preprocessing_and_hyperparameter_tuning": cut if most > 1 else None,
        "mechanisms": _points([*_noise(told), _made_by(software)]),
        "composition": _points(_composition(told, spec)),
        "post_processing": _points(steps),
        "utility": _points([f"Margins of error are stated at {share}.", *told["margins"].values()]),
        "additional_information": f"Release {told['release_id']}; SHA-256 of the release spec: "
        f"{told['spec_digest']}.",
    }


def _noise(told: Mapping[str, Any]) -> list[str]:
    """Return what was drawn for each table: the mechanism, and the distribution of its noise."""
    said = []
    for name, table in told["tables"].items():
        drawn = sorted(
            {each["primitive"].replace("_", " ") for each in told["transcript"] if _of(each["purpose"], name)}
        )
        said.append(f"{name}: mechanism {table['mechanism']}, drawing {', '.join(drawn)}")
    return said


def _of(purpose: str, table: str) -> bool:
    return purpose.partition("/")[0] == table


def _made_by(software: Mapping[str, str]) -> str:
    return (
        f"Implemented by Tabularium {software['tabularium-dp']} on Python {software['python']}: noise is "
        "drawn by exact integer arithmetic, without floating-point numbers, from AES-256 under a key that is "
        "thrown away."
    )


def _composition(told: Mapping[str, Any], spec: ReleaseSpec) -> list[str]:
    """Return what each measurement costs one record: together, they are the whole budget."""
    symbol = "epsilon" if spec.privacy.definition == "pure" else "rho"
    said = ["Sequential: the losses of all measurements are added."]
    for (name, level), loss in spec.losses.items():
        said.append(f"{name}{f', {level}' if level else ''}: {symbol} = {loss} for one record")
    if told["tallies"]:
        said.append(f"tallies before it: {symbol} = {spec.tally_amount} for one {spec.privacy.unit.called}")
    return said


def _sources(told: Mapping[str, Any]) -> dict[str, Any] | None:
    about = _about(told)
    if "url" not in about:
        return None
    source = {"title": about.get("title", told["product"]), "url": about["url"]}
    return {
        "data_product": {
            "evidence_source_type": "Formal publication by the deploying organization",
            "misc": source,
        }
    }


def _points(said: Iterable[str]) -> str:
    """Return sentences as a list in Markdown; one alone as it is."""
    found = list(said)
    return found[0] if len(found) == 1 else "".join(f"- {each}\n" for each in found)
