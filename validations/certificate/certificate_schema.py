"""The JSON Schema of certificates, for whoever reads them with other software.

``certificate.schema.json`` in this package is that schema; ``python -m
tabularium.validations.certificate.certificate_schema`` prints it as the model gives it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tabularium.validations.certificate.certificate import FORMAT, Certificate


def certificate_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    schema = without_titles(Certificate.model_json_schema(by_alias=True, mode="validation"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tabularium:certificate:{FORMAT}",
        "title": "Certificate of a Tabularium release",
        **schema,
    }


def schema_text() -> str:
    """Return the schema as the text of ``certificate.schema.json``."""
    return json.dumps(certificate_schema(), indent=2, ensure_ascii=False) + "\n"


def without_titles(node: Any) -> Any:
    """Take out what Pydantic makes of names, and defaults that stand for absence."""
    if isinstance(node, list):
        return [without_titles(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_titles(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }


if __name__ == "__main__":
    sys.stdout.write(schema_text())
