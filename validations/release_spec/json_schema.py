"""The JSON Schema of the release spec, by which editors complete keys and mark mistakes.

``release.schema.json`` in this package is that schema;
``python -m tabularium.validations.release_spec.json_schema > release.schema.json`` writes a copy of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tabularium.validations.release_spec.model import SpecFile
from tabularium.validations.release_spec.publication_formats import FORMATS


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a spec as it is written."""
    schema = _plain(SpecFile.model_json_schema(by_alias=True, mode="validation"))
    names = {"enum": list(FORMATS), "type": "string"}
    schema["$defs"]["Publication"]["properties"]["formats"]["items"] = names
    return {
        **schema,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tabularium release spec",
    }


def schema_text() -> str:
    """Return the schema as the text of ``release.schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _plain(node: Any) -> Any:
    """Take out null (a key without a value is a mistake in a spec), generated titles and markup."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain(value) for key, value in node.items()}
    if isinstance(plain.get("title"), str):
        del plain["title"]
    if isinstance(plain.get("description"), str):
        plain["description"] = plain["description"].replace("``", "`")
    if "default" in plain and plain["default"] is None:
        del plain["default"]
    if isinstance(plain.get("anyOf"), list):
        options = [option for option in plain["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            del plain["anyOf"]
            plain = {**options[0], **plain}
        else:
            plain["anyOf"] = options
    return plain


if __name__ == "__main__":
    sys.stdout.write(schema_text())
