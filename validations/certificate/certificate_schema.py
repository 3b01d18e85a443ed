"""The JSON Schema of certificates, for readers with other software.

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
    schema = _plain(Certificate.model_json_schema(by_alias=True, mode="validation"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tabularium:certificate:{FORMAT}",
        "title": "Certificate of a Tabularium release",
        **schema,
    }


def schema_text() -> str:
    """Return the schema as the text of ``certificate.schema.json``."""
    return json.dumps(certificate_schema(), indent=2, ensure_ascii=False) + "\n"


def _plain(node: Any) -> Any:
    """Take out generated titles and defaults that stand for absence; hold names of maps to their form."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {
        key: _plain(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
    if isinstance(plain.get("patternProperties"), dict):  # which would let other names pass unseen
        ((pattern, inner),) = plain.pop("patternProperties").items()
        plain |= {"propertyNames": {"pattern": pattern}, "additionalProperties": inner}
    return plain


if __name__ == "__main__":
    sys.stdout.write(schema_text())
