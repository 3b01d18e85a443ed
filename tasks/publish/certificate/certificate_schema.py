"""The JSON Schema of certificates, which lies in this package: checking one needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "certificate.schema.json"


@lru_cache
def certificate_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    found: dict[str, Any] = json.loads(FILE.read_bytes())
    return found


def against_schema(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON path of each place in which a certificate is not what the schema says, and why."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(certificate_schema())
    for error in validator.iter_errors(certificate):
        worst = jsonschema.exceptions.best_match([error]) or error
        yield f"{worst.json_path}: {worst.message[:200]}"
