"""Code lists out of SDMX messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabularium.validations.domains.code_lists import (
    CodeList,
    divided,
    published_name,
    published_text,
    read_code_list,
)
from tabularium.validations.release_spec.problems import Problem
from tests.validations.release_spec.spec_samples import AREAS, changed, load

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
BASE = "http://www.sdmx.org/resources/sdmxml/schemas/v"
SAME = 'code,label,parent\nS,"South, all",\nS1,Some,S\nS1-a,,S1\nN,North,\n'


def message(codes: str, version: str = "3_0", lists: str = "") -> str:
    spaces = " ".join(
        f'xmlns:{prefix}="{BASE}{version}/{name}"'
        for prefix, name in (("m", "message"), ("s", "structure"), ("c", "common"))
    )
    return (
        f"{HEAD}<m:Structure {spaces}>\n<m:Header><m:ID>1</m:ID></m:Header>\n<m:Structures><s:Codelists>\n"
        f'<s:Codelist id="CL_AREA" agencyID="TAB" version="1.0"><c:Name>Areas</c:Name>\n{codes}\n</s:Codelist>'
        f"{lists}</s:Codelists></m:Structures></m:Structure>"
    )


V30 = message(
    """<s:Code id="S"><c:Annotations><c:Annotation><c:AnnotationText>no</c:AnnotationText></c:Annotation>
</c:Annotations><c:Name xml:lang="de">Süden</c:Name><c:Name xml:lang="en">South,
 all</c:Name></s:Code>
<s:Code id="S1"><c:Name>Some</c:Name><s:Parent>S</s:Parent></s:Code>
<s:Code id="S1-a"><s:Parent>S1</s:Parent></s:Code>
<s:Code id="N"><c:Name xml:lang="en-US">North</c:Name><c:Description>cold</c:Description></s:Code>"""
)
V21 = message(
    """<s:Code id="S"><c:Name xml:lang="en">South, all</c:Name></s:Code>
<s:Code id="S1"><c:Name xml:lang="en">Some</c:Name><s:Parent><Ref id="S"/></s:Parent></s:Code>
<s:Code id="S1-a"><s:Parent>
<URN>urn:sdmx:org.sdmx.infomodel.codelist.Code=TAB:CL_AREA(1.0).S1</URN></s:Parent></s:Code>
<s:Code id="N"><c:Name xml:lang="en">North</c:Name></s:Code>""",
    "2_1",
)
CODES = [
    {"id": "S", "name": "South, all"},
    {"id": "S1", "names": {"fr": "Quelques", "en": "Some"}, "parent": "S"},
    {"id": "S1-a", "parent": "S1"},
    {"id": "N", "name": "North"},
]


def as_json(*lists: dict[str, object]) -> str:
    return json.dumps({"meta": {}, "data": {"codelists": lists}})


ONE = {"id": "CL_AREA", "agencyID": "TAB", "version": "1.0", "codes": CODES}


def read(
    folder: Path, text: str | bytes, name: str = "lists.xml#CL_AREA"
) -> tuple[CodeList | None, list[Problem]]:
    content = text if isinstance(text, bytes) else text.encode()
    (folder / divided(name)[0]).write_bytes(content)
    return read_code_list(folder / name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (V30, "lists.xml#CL_AREA"),
        (V21, "lists.XML#CL_AREA"),
        (V30.replace("3_0", "3_1"), "lists.xml#TAB:CL_AREA(1.0)"),
        (as_json(ONE), "lists.json#TAB:CL_AREA"),
    ],
)
def test_each_form_is_published_as_the_same_csv(tmp_path: Path, text: str, name: str) -> None:
    tree, problems = read(tmp_path, text, name)
    assert problems == []
    assert tree is not None
    assert tree.codes == ("S", "N", "S1", "S1-a")
    assert tree.labels == ("South, all", "North", "Some", "S1-a")
    assert tree.parents.tolist() == [-1, -1, 0, 2]
    assert published_text(tmp_path / name) == SAME.encode()
    assert tree.digest == read(tmp_path, SAME, "codes.csv")[0].digest  # type: ignore[union-attr]


OTHER = '<s:Codelist id="CL_AREA" agencyID="OTHER" version="2.0"><s:Code id="X"/></s:Codelist>'


def test_a_list_is_chosen_by_agency_and_version(tmp_path: Path) -> None:
    both = message('<s:Code id="A"/>', lists=OTHER)
    for name, code in (("TAB:CL_AREA", "A"), ("OTHER:CL_AREA", "X"), ("CL_AREA(2.0)", "X")):
        tree, problems = read(tmp_path, both, f"lists.xml#{name}")
        assert problems == []
        assert tree is not None
        assert tree.codes == (code,)


ENTITIES = HEAD + '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n' + V30.removeprefix(HEAD)
TWICE = message('<s:Code id="A"/>\n<s:Code id="A"/>')
CIRCLE = message(
    '<s:Code id="A"><s:Parent>B</s:Parent></s:Code>\n<s:Code id="B"><s:Parent>A</s:Parent></s:Code>'
)


DATA = '<m:{} xmlns:m="http://www.sdmx.org/resources/sdmxml/schemas/v{}/message"/>'


@pytest.mark.parametrize(
    ("name", "text", "line", "says", "hint"),
    [
        ("lists.xml", V30, None, "does not say which", "lists.xml# and one of them: `CL_AREA`"),
        ("lists.xml#CL_ARE", V30, None, "no code list `CL_ARE`", "did you mean `CL_AREA`"),
        ("lists.xml#CL AREA", V30, None, "no code list `CL AREA`", "did you mean `CL_AREA`"),
        ("lists.xml#CL_AREA(3.0)", V30, None, "no code list", "CL_AREA"),
        ("lists.xml#CL_AREA", message("", lists=OTHER), None, "several", "`TAB:CL_AREA(1.0)` and `OTHER:CL"),
        ("lists.xml#CL_AREA", message(""), None, "has no codes", ""),
        ("lists.xml#CL_AREA", ENTITIES, 2, "document type", "agency"),
        ("lists.xml#CL_AREA", V30[:-20], V30.count("\n") + 1, "not XML", "agency"),
        ("lists.xml#CL_AREA", "", 1, "not XML", "agency"),
        ("lists.xml#CL_AREA", "<a/>", 1, "no SDMX-ML structure", "2.1"),
        ("lists.xml#CL_AREA", '<Structure xmlns="http://www.SDMX.org/resources/SDMXML/schemas/v2_0/message"/>', 1, "2.0", "2.1"),
        ("lists.xml#CL_AREA", TWICE, 7, "`A` is here twice, first at line 6", "keep one"),
        ("lists.xml#CL_AREA", CIRCLE, 6, "circle: A > B > A", "empty parent"),
        ("lists.xml#CL_AREA", message('<s:Code id="A"><s:Parent>C</s:Parent></s:Code>'), 6, "`C` of `A`", ""),
        ("lists.xml#CL_AREA", message("<s:Code/>"), 6, "code is empty", ""),
        ("lists.xml#CL_AREA", message('<s:CodelistExtension/><s:Code id="A"/>'), None, "another one", "all its"),
        ("lists.xml#CL_AREA", V30.encode("utf-16"), 1, "UTF-8", ""),
        ("lists.json#CL_AREA", "{", 1, "not JSON", ""),
        ("lists.json#CL_AREA", "[" * 100_000, None, "not JSON", ""),
        ("lists.xml#CL_AREA", DATA.format("StructureSpecificData", "3_0"), 1, "SDMX data message", "registry"),
        ("lists.xml#CL_AREA", DATA.format("GenericData", "2_1"), 1, "SDMX data message", "registry"),
        ("lists.json#CL_AREA", '{"data": {"dataSets": []}}', None, "SDMX data message", "registry"),
        ("lists.json#CL_AREA", '{"dataSets": [], "structure": {}}', None, "SDMX data message", "registry"),
        ("lists.csv", "DATAFLOW,AREA,OBS_VALUE\nA:B(1.0),IT,1\n", 1, "SDMX-CSV data", "registry"),
        ("lists.json#CL_AREA", "[]", None, "no SDMX-JSON", ""),
        ("lists.json#CL_AREA", as_json({**ONE, "codes": [{"name": "x"}]}), None, "no SDMX-JSON", ""),
        ("lists.json#CL_AREA", as_json({**ONE, "codes": [*CODES, CODES[0]]}), None, "`S` is here twice", ""),
        ("lists.json#CL_AREA", as_json({**ONE, "codelistExtensions": [{}]}), None, "another one", ""),
        ("lists.json#CL_AREA", as_json(), None, "no code list in this message", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, name: str, text: str | bytes, line: int | None, says: str, hint: str
) -> None:
    tree, problems = read(tmp_path, text, name)
    assert tree is None
    assert problems[0].line == line
    assert says in problems[0].what
    assert hint in problems[0].hint
    assert problems[0].file == name.partition("#")[0]
    assert "\n" not in str(problems[0])
    assert published_text(tmp_path / name) == b"" or problems[0].line is not None or "twice" in says


def test_a_spec_names_a_list_of_an_sdmx_file(tmp_path: Path) -> None:
    """Where the list came from does not matter: the spec's digest is that of the published CSV."""
    csv = load(tmp_path)
    lines = [line.split(",") for line in AREAS.splitlines()[1:]]
    codes = [{"id": code, "name": label, "parent": parent} for code, label, parent in lines]
    (tmp_path / "lists.json").write_text(as_json({**ONE, "id": "areas", "codes": codes}))
    sdmx = load(tmp_path, changed("hierarchy: areas.csv", "hierarchy: lists.json#areas"))
    assert sdmx.spec.columns["area"].hierarchy == "lists.json#areas"
    assert sdmx.published_spec == csv.published_spec
    assert sdmx.public_files == csv.public_files
    assert sdmx.digest == csv.digest


def test_names_of_published_lists() -> None:
    assert published_name("a/b.csv") == "b.csv"
    assert published_name("a/b.xml#SDMX:CL_AREA(1.0)") == "CL_AREA.csv"
    assert published_name("a/b#c.csv") == "b#c.csv"
    assert divided("b#c.csv") == ("b#c.csv", None)


IN_LANGUAGES = """<s:Code id="T"><c:Name xml:lang="it">Totale</c:Name><c:Name xml:lang="en-GB">Total</c:Name></s:Code>
<s:Code id="N"><c:Name xml:lang="pt-BR">Norte BR</c:Name><c:Name xml:lang="pt-PT">Norte</c:Name>
<c:Name xml:lang="en">North</c:Name></s:Code>
<s:Code id="S"><c:Name xml:lang="fr">Sud</c:Name></s:Code>
<s:Code id="Z"/>"""
CODES_IN_LANGUAGES = [
    {"id": "T", "names": {"it": "Totale", "en-GB": "Total"}},
    {"id": "N", "names": {"pt-BR": "Norte BR", "pt-PT": "Norte", "en": "North"}},
    {"id": "S", "names": {"fr": "Sud"}},
    {"id": "Z"},
]


@pytest.mark.parametrize("ending", ["xml", "json"])
@pytest.mark.parametrize(
    ("language", "labels", "languages"),
    [
        ("en", ("Total", "North", "Sud", "Z"), ("", "", "fr", "")),
        ("en-GB", ("Total", "North", "Sud", "Z"), ("", "en", "fr", "")),
        ("it", ("Totale", "North", "Sud", "Z"), ("", "en", "fr", "")),
        ("IT-ch", ("Totale", "North", "Sud", "Z"), ("it", "en", "fr", "")),
        ("pt-PT", ("Total", "Norte", "Sud", "Z"), ("en-GB", "", "fr", "")),
        ("fr", ("Total", "North", "Sud", "Z"), ("en-GB", "en", "", "")),
    ],
)
def test_labels_are_in_the_language_of_the_release_or_say_in_which(
    tmp_path: Path, ending: str, language: str, labels: tuple[str, ...], languages: tuple[str, ...]
) -> None:
    text = message(IN_LANGUAGES) if ending == "xml" else as_json({**ONE, "codes": CODES_IN_LANGUAGES})
    path = tmp_path / f"lists.{ending}#CL_AREA"
    (tmp_path / f"lists.{ending}").write_text(text)
    tree, problems = read_code_list(path, language)
    assert problems == []
    assert tree is not None
    assert (tree.labels, tree.languages) == (labels, languages)
    (tmp_path / "codes.csv").write_bytes(published_text(path, language))
    again, _ = read_code_list(tmp_path / "codes.csv")
    assert again is not None
    assert (again.labels, again.languages, again.digest) == (labels, languages, tree.digest)


def test_a_name_of_json_without_a_language_is_in_that_of_the_message(tmp_path: Path) -> None:
    codes = [{"id": "S", "name": "Sud"}]
    text = json.dumps(
        {"meta": {"contentLanguages": ["fr"]}, "data": {"codelists": [{**ONE, "codes": codes}]}}
    )
    (tmp_path / "lists.json").write_text(text)
    for language, tags in (("fr", ()), ("en", ("fr",))):
        tree, _ = read_code_list(tmp_path / "lists.json#CL_AREA", language)
        assert tree is not None
        assert (tree.labels, tree.languages) == (("Sud",), tags)
