"""``structure.sdmx.xml`` or ``.json``: the meaning of the rows, as an SDMX 3.0 structure message.

One concept scheme for the product, one code list for each column that is a dimension, and a hierarchy
where its codes have parents, and for each table a data structure and a dataflow.

Systems of today look for parents in the code list, so they stand there too. Only SDMX-ML 3.0 cannot write all
of them: in its schema a parent must begin with a letter, which 3.1 corrected. A list with other parents has
them in the hierarchy only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from lxml import etree
from pysdmx.io.format import Format
from pysdmx.io.writer import write_sdmx as written
from pysdmx.model import (
    Annotation,
    Code,
    Codelist,
    Component,
    Components,
    Concept,
    ConceptScheme,
    Dataflow,
    DataStructureDefinition,
    DataType,
    HierarchicalCode,
    Hierarchy,
    Organisation,
    Role,
)
from pysdmx.model.code import LevelType
from pysdmx.model.message import Header

from tabularium.tasks.publish.formats.sdmx.cubes import STATUS, Cube, code_id, product_id
from tabularium.validations.domains.domains import CategoryDomain, Domain, HierarchyDomain
from tabularium.validations.release_spec.load import Loaded

_FORMATS = {"xml": Format.STRUCTURE_SDMX_ML_3_0, "json": Format.STRUCTURE_SDMX_JSON_2_0_0}
_URN = "urn:sdmx:org.sdmx.infomodel"
_STRUCTURE = "{http://www.sdmx.org/resources/sdmxml/schemas/v3_0/structure}"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_STATUS_NAMES = {
    "A": "Normal value",
    "U": "Low reliability: its margin of error is large",
    "Q": "Missing value; suppressed",
    "V": "Unvalidated: its margin of error is not known",
    "N": "Not significant: measured, published as 0, and not distinguishable from 0",
}

_XML_PARENT = re.compile("[A-Za-z][A-Za-z0-9_-]*")

Parents = dict[str, dict[str, str]]  # id of a code list -> code -> parent
Languages = dict[tuple[str, str], str]
"""(id of a scheme or "" for its own name, id in it) -> language of the name, if not that of the release."""
_ENGLISH = {
    "SIZE": "Number of records of one item",
    "TIME_PERIOD": "Reference period",
    "OBS_VALUE": "Number",
    "MARGIN": "Margin of error",
    "OBS_STATUS": "Status of an observation",
    "LEVEL": "Level of the hierarchy",
}
"""Concepts that every product has, whose names are in English whatever the language of the release."""


@dataclass(frozen=True)
class _Names:
    """What every structure of the product shares."""

    agency: str
    version: str
    product: str
    title: str

    @property
    def common(self) -> dict[str, Any]:
        return {"agency": self.agency, "version": self.version}

    def urn(self, package: str, kind: str, name: str, item: str = "") -> str:
        return f"{_URN}.{package}.{kind}={self.agency}:{name}({self.version}){item and f'.{item}'}"


def structure_message(loaded: Loaded, cubes: Sequence[Cube]) -> str:
    """Return the message about all tables.

    It is the same for the same spec: where SDMX asks when it was prepared, it has the beginning of the
    reference period's year.
    """
    spec = loaded.spec
    options = spec.publication.sdmx
    names = _Names(options.agency, options.version, product_id(loaded), spec.about.title or spec.product)
    lists, parents, trees = _code_lists(loaded, cubes, names)
    scheme = _concepts(loaded, cubes, names)
    structures = [_structure(cube, names, scheme, lists) for cube in cubes]
    flows = [
        Dataflow(id=f"DF_{cube.name}", name=structure.name, structure=structure, **names.common)
        for cube, structure in zip(cubes, structures, strict=True)
    ]
    header = Header(
        id=f"{names.product}_{cubes[0].period}",
        prepared=datetime(int(cubes[0].period[:4]), 1, 1, tzinfo=UTC),
        sender=Organisation(id=names.agency.partition(".")[0]),
    )
    text = written(
        [scheme, *lists.values(), *trees, *structures, *flows], _FORMATS[options.structure], header=header
    )
    finish = _finished_xml if options.structure == "xml" else _finished_json
    languages = _languages(loaded, cubes, lists, scheme)
    return finish(str(text), parents, spec.about.language, languages)


def _languages(
    loaded: Loaded, cubes: Sequence[Cube], lists: Mapping[str, Codelist], scheme: ConceptScheme
) -> Languages:
    """Return the language of each name that is not in the release's language."""
    language, languages = loaded.spec.about.language, Languages()
    for cube in cubes:
        for column, name in cube.dimensions.items():
            domain = loaded.domains.get(column)
            if isinstance(domain, HierarchyDomain | CategoryDomain) and domain.languages:
                pairs = zip(lists[name].items, domain.languages, strict=True)
                languages |= {(lists[name].id, item.id): tag for item, tag in pairs if tag}
    if language.partition("-")[0].casefold() != "en":
        status = lists["OBS_STATUS"]
        languages |= {("", status.id): "en", **{(status.id, item.id): "en" for item in status.items}}
        languages |= {(scheme.id, concept.id): "en" for concept in scheme if concept.id in _ENGLISH}
    return languages


def _code_lists(
    loaded: Loaded, cubes: Sequence[Cube], names: _Names
) -> tuple[dict[str, Codelist], Parents, list[Hierarchy]]:
    """Return the code lists of dimensions and of the status by their ids, and the trees of codes."""
    used = {column: name for cube in cubes for column, name in cube.dimensions.items() if name != "SIZE"}
    lists: dict[str, Codelist] = {}
    parents: Parents = {}
    trees = []
    for column, name in used.items():
        domain = loaded.domains[column]
        title = loaded.spec.columns[column].title or column
        codes, labels = _nodes(domain)
        items = [_code(code, label) for code, label in zip(codes, labels, strict=True)]
        lists[name] = Codelist(id=f"CL_{names.product}_{name}", name=title, items=items, **names.common)
        if isinstance(domain, HierarchyDomain):
            above = zip(items, domain.parents.tolist(), strict=True)
            parents[lists[name].id] = {item.id: items[parent].id for item, parent in above if parent >= 0}
            trees.append(_hierarchy(domain, lists[name], name, names))
    lists["OBS_STATUS"] = Codelist(
        id=f"CL_{names.product}_OBS_STATUS",
        name=_ENGLISH["OBS_STATUS"],
        items=[Code(id=code, name=_STATUS_NAMES[code]) for code in dict.fromkeys(STATUS.values())],
        **names.common,
    )
    return lists, parents, trees


def _hierarchy(domain: HierarchyDomain, codes: Codelist, name: str, names: _Names) -> Hierarchy:
    """Return the tree of a code list, with the names of its levels."""
    below: dict[int, list[HierarchicalCode]] = {}
    for node in reversed(range(len(codes.items))):  # breadth first: children come after their parent
        code = codes.items[node].id
        children = tuple(reversed(below.pop(node, [])))
        urn = names.urn("codelist", "Code", codes.id, code)
        below.setdefault(int(domain.parents[node]), []).append(
            HierarchicalCode(id=code, urn=urn, codes=children)
        )
    level = None
    for item in reversed(domain.levels):
        level = LevelType(id=item, name=item, level=level)
    return Hierarchy(
        id=f"H_{names.product}_{name}",
        name=codes.name,
        codes=tuple(reversed(below[-1])),
        has_formal_levels=True,
        is_partial=False,
        level=level,
        **names.common,
    )


def _nodes(domain: Domain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if isinstance(domain, HierarchyDomain):
        return domain.node_codes, domain.node_labels
    return domain.codes, domain.labels


def _code(code: str, label: str) -> Code:
    name = code_id(code)
    if name == code:
        return Code(id=name, name=label)
    return Code(id=name, name=label, annotations=(Annotation(id="CODE", text=code),))


def _concepts(loaded: Loaded, cubes: Sequence[Cube], names: _Names) -> ConceptScheme:
    """Return the concepts: the columns in use, and the attributes of every cell."""
    spec = loaded.spec
    texts = {
        name: spec.columns[column].title or column
        for cube in cubes
        for column, name in cube.dimensions.items()
        if name != "SIZE"
    }
    if any("SIZE" in cube.dimensions.values() for cube in cubes):
        texts["SIZE"] = _ENGLISH["SIZE"]
    texts |= {name: _ENGLISH[name] for name in ("TIME_PERIOD", "OBS_VALUE")}
    texts["MARGIN"] = f"{_ENGLISH['MARGIN']}, {float(100 * spec.publication.confidence):g} %"
    texts |= {name: column for cube in cubes for column, name in cube.measures.items()}
    texts |= {name: _ENGLISH[name] for name in ("OBS_STATUS", "LEVEL")}
    scheme = f"CS_{names.product}"
    items = [
        Concept(id=name, name=text, urn=names.urn("conceptscheme", "Concept", scheme, name))
        for name, text in texts.items()
    ]
    return ConceptScheme(id=scheme, name=names.title, items=items, **names.common)


def _structure(
    cube: Cube, names: _Names, scheme: ConceptScheme, lists: Mapping[str, Codelist]
) -> DataStructureDefinition:
    entry = cube.table.entry
    return DataStructureDefinition(
        id=f"DSD_{cube.name}",
        name=entry.title or f"{names.title}: {entry.name}",
        components=Components(list(_components(cube, names, scheme, lists))),
        **names.common,
    )


def _components(
    cube: Cube, names: _Names, scheme: ConceptScheme, lists: Mapping[str, Codelist]
) -> Iterator[Component]:
    """Yield dimensions, measure and attributes, in the order of the columns of the rows."""
    columns = cube.table.frame.schema.names
    concepts = {concept.id: concept for concept in scheme}

    def component(name: str, role: Role, kind: DataType | None = None, level: str | None = None) -> Component:
        codes = None if kind is not None else lists.get(name, lists["OBS_STATUS"])
        return Component(
            id=name,
            required=role == Role.DIMENSION,
            role=role,
            concept=concepts[name],
            local_dtype=kind,
            local_codes=codes,
            local_enum_ref=None if codes is None else names.urn("codelist", "Codelist", codes.id),
            attachment_level=level,
        )

    for name in cube.dimensions.values():
        yield component(name, Role.DIMENSION, DataType.LONG if name == "SIZE" else None)
    yield component("TIME_PERIOD", Role.DIMENSION, DataType.PERIOD)
    yield component("OBS_VALUE", Role.MEASURE, _number(cube, cube.value))
    if "margin" in columns:
        yield component("MARGIN", Role.ATTRIBUTE, _number(cube, "margin"), "O")
    for column, name in cube.measures.items():
        flags = pa.types.is_dictionary(cube.table.frame.schema.field(column).type)
        yield component(name, Role.ATTRIBUTE, None if flags else _number(cube, column), "O")
    yield component("OBS_STATUS", Role.ATTRIBUTE, None, "O")
    if cube.along is not None:
        yield component("LEVEL", Role.ATTRIBUTE, DataType.STRING, cube.along)


def _number(cube: Cube, column: str) -> DataType:
    return DataType.LONG if str(cube.table.frame.schema.field(column).type) == "int64" else DataType.DOUBLE


def _finished_xml(text: str, parents: Parents, language: str, languages: Languages) -> str:
    """Add what pysdmx does not write, parents and the language of names; drop what other readers refuse."""
    root = etree.fromstring(text.encode())
    for codes in root.iter(f"{_STRUCTURE}Codelist"):
        above = parents.get(codes.get("id"), {})
        if not all(map(_XML_PARENT.fullmatch, above.values())):
            continue
        for code in codes.iter(f"{_STRUCTURE}Code") if above else ():
            if (parent := above.get(code.get("id"))) is not None:
                etree.SubElement(code, f"{_STRUCTURE}Parent").text = parent
    for element in list(root.iter(f"{_STRUCTURE}MeasureRelationship")):
        element.getparent().remove(element)  # there is one measure
    for element in root.iter("{*}AnnotationText"):
        element.set(_LANGUAGE, language)
    for element in root.iter("{*}Name"):
        named = element.getparent()
        item = named.tag in (f"{_STRUCTURE}Code", f"{_STRUCTURE}Concept")
        scheme = named.getparent().get("id") if item else ""
        element.set(_LANGUAGE, languages.get((scheme, named.get("id")), language))
    etree.indent(root, space=" ")
    return f"{etree.tostring(root, xml_declaration=True, encoding='UTF-8').decode()}\n"


def _finished_json(text: str, parents: Parents, language: str, languages: Languages) -> str:
    """Add the parents, which pysdmx does not write; drop empty groups, which the schema refuses."""
    message: dict[str, Any] = json.loads(text)
    message["meta"]["contentLanguages"] = list(dict.fromkeys((language, *languages.values())))
    for schemes, items in (("codelists", "codes"), ("conceptSchemes", "concepts")):
        for scheme in message["data"].get(schemes, ()):
            _name_language(scheme, languages.get(("", scheme["id"])))
            for item in scheme.get(items, ()):
                _name_language(item, languages.get((scheme["id"], item["id"])))
    for codes in message["data"]["codelists"]:
        above = parents.get(codes["id"], {})
        for code in codes["codes"] if above else ():
            if code["id"] in above:
                code["parent"] = above[code["id"]]
    for structure in message["data"]["dataStructures"]:
        structure["dataStructureComponents"].pop("groups", None)
    return json.dumps(message, ensure_ascii=False, indent=1) + "\n"


def _name_language(named: dict[str, Any], language: str | None) -> None:
    """Set the language of a name where it differs from the message's."""
    if language is not None:
        named["names"] = {language: named["name"]}
