"""The catalogue entry of a release: ``catalogue.jsonld``, in DCAT, over the files of the other formats.

Addresses are relative to the file, so that it is right wherever the folder is put. Nothing in the graph is
blank: everything has a name, and the text is sorted, so that the same release gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabularium.tasks.publish.data_dictionary import title_of, title_of_release
from tabularium.tasks.publish.dcat import CONTEXT, NAME, File, add_dataset, add_distribution
from tabularium.tasks.publish.formats.base import TableFormat, Tables
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.publication_formats import FileKind


class Catalogue(TableFormat):
    """The release as a dataset, with the sizes and digests of the files of tables."""

    name = "catalogue"
    summary = f"`{NAME}`: the release as a dataset of DCAT, for data portals"
    kinds = (FileKind(".jsonld", "catalogue entry (DCAT)", stem="catalogue"),)
    last = True

    def finish(self, loaded: Loaded, tables: Tables, folder: Path) -> None:
        """Write ``catalogue.jsonld`` over the files of tables that lie in the folder."""
        from rdflib import Graph

        graph, about = Graph(), loaded.spec.about
        add_dataset(graph, "", about, loaded.spec.product, loaded.spec.period)
        titles = {name: title_of(table.entry) for name, table in tables.items()}
        titles[""] = title_of_release(loaded)
        for path in (child for child in folder.iterdir() if child.is_file()):
            file = File(path.name, path.name, path.stat().st_size, digest_of(path))
            add_distribution(graph, "", about, file, titles)
        graph_document = json.loads(graph.serialize(format="json-ld", context=CONTEXT, auto_compact=False))
        text = json.dumps(_in_order(graph_document), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        (folder / NAME).write_text(text, encoding="utf-8")

    def identities(self, loaded: Loaded) -> Mapping[str, str]:
        """Return what names the dataset."""
        return {NAME: f'"{loaded.spec.product}/{loaded.spec.period}"'}


def _in_order(node: Any) -> Any:
    """Sort the lists of a document: in RDF they are sets, whose order nobody keeps."""
    if isinstance(node, list):
        return sorted((_in_order(item) for item in node), key=lambda item: json.dumps(item, sort_keys=True))
    return {key: _in_order(value) for key, value in node.items()} if isinstance(node, dict) else node
