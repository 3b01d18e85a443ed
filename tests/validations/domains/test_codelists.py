"""Hierarchies from code lists."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabularium.validations.domains.code_lists import (
    LEVEL_LIMIT,
    CodeList,
    breadth_first,
    published_text,
    read_code_list,
)
from tabularium.validations.release_spec.problems import Problem


def read(folder: Path, content: str | bytes) -> tuple[CodeList | None, list[Problem]]:
    path = folder / "codes.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_code_list(path)


def good(folder: Path, content: str | bytes) -> CodeList:
    tree, problems = read(folder, content)
    assert problems == []
    assert tree is not None
    return tree


def bad(folder: Path, content: str | bytes) -> list[tuple[int | None, str, str]]:
    tree, problems = read(folder, content)
    assert tree is None
    assert problems
    assert all(problem.hint and problem.file == "codes.csv" for problem in problems)
    return [(problem.line, problem.field, problem.what) for problem in problems]


def test_breadth_first_order_by_hand(tmp_path: Path) -> None:
    """Two roots, leaves at depths 0, 1 and 2, children before their parents in the file."""
    content = "code,label,parent\nb,B,r\nr,R,\na,A,r\nx,X,b\ns,,\ny,Y,t\nz,Z,a\nw,W,b\nt,T,r\nq,Q,\n"
    tree = good(tmp_path, content)
    assert tree.codes == ("r", "s", "q", "b", "a", "t", "x", "w", "z", "y")
    assert tree.labels == ("R", "s", "Q", "B", "A", "T", "X", "W", "Z", "Y")
    assert tree.parents.tolist() == [-1, -1, -1, 0, 0, 0, 3, 3, 4, 5]
    assert tree.depth.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert tree.levels == 3
    assert tree.digest == hashlib.sha256(content.encode()).hexdigest()


def test_what_agencies_send(tmp_path: Path) -> None:
    """A byte order mark, Windows line ends, other columns, other order, quotes, blank lines."""
    content = b'\xef\xbb\xbfparent,Code,note, LABEL \r\n,1,,"One, or first"\r\n\r\n1,"1""1",x,\xc3\x84\r\n'
    tree = good(tmp_path, content)
    assert tree.codes == ("1", '1"1')
    assert tree.labels == ("One, or first", "Ä")


def test_what_is_published_is_code_label_and_parent_alone(tmp_path: Path) -> None:
    """Further columns, their order, quotes and line ends make no difference, nor to the digest."""
    plain = 'code,label,parent\n1,"One, or first",\n11,Ä,1\n'
    content = '\ufeffparent,Code,note, LABEL \r\n,1,secret,"One, or first"\r\n\r\n1,11,x,Ä\r\n'
    tree = good(tmp_path, content)
    assert published_text(tmp_path / "codes.csv") == plain.encode()
    assert tree.digest == hashlib.sha256(plain.encode()).hexdigest()
    assert good(tmp_path, plain).digest == tree.digest
    (tmp_path / "codes.csv").unlink()
    assert published_text(tmp_path / "codes.csv") == b""


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("", 1, "lacks `code`, `label` and `parent`"),
        ("code,label\n1,a\n", 1, "lacks `parent`"),
        ("code,label,parent,code\n1,a,,2\n", 1, "twice"),
        ("code;label;parent\n1;a;\n", 1, "not separated by commas"),
        ("code\tlabel\tparent\n", 1, "not separated by commas"),
        ("code,label,parent\n", None, "no codes"),
        ("code,label,parent\n1,a\n", 2, "does not have 3 values"),
        ("code,label,parent\n1,a,\n2,b,c,1\n", 3, "does not have 3 values"),
        ('code,label,parent\n1,"a,\n', 2, "not CSV"),
        ("code,label,parent\n1,a\x00b,\n", 2, "null character"),
        (b"code,label,parent\n1,a,\n2,\xff,\n", 3, "UTF-8"),
        ("code,label,parent\n1,a,\n".encode("utf-16"), 1, "UTF-8"),
    ],
)
def test_files_that_are_no_code_lists(
    tmp_path: Path, content: str | bytes, line: int | None, says: str
) -> None:
    ((found, _, what),) = bad(tmp_path, content)
    assert found == line
    assert says in what


def test_every_mistake_is_found_at_once(tmp_path: Path) -> None:
    rows = [
        "b,B,a",
        "a,A,b",
        "c,C,c",
        "d,D,a",
        "e,E,",
        "f,F,g1",
        "g1x,G,e",
        " h,H,e",
        ",x,e",
        "e,E2,",
        'i,"I\nJ",e',
    ]
    found = bad(tmp_path, "\n".join(["code,label,parent", *rows, "k,K,e", "1,2", ""]))
    assert found == [
        (15, "", "the row does not have 3 values"),
        (9, "code", "the code `h` has spaces around it"),
        (10, "code", "the code is empty"),
        (13, "label", "the label has a control character or a line break in it"),
        (11, "code", "the code `e` is here twice, first at line 6"),
        (7, "parent", "the parent `g1` of `f` is not a code of this list"),
        (2, "parent", "the parents go in a circle: b > a > b"),
        (4, "parent", "the parents go in a circle: c > c"),
    ]


def test_an_orphan_is_offered_the_nearest_code(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "code,label,parent\nNorth,N,\nN1,x,Nort\n")
    assert problems[0].hint == "did you mean `North`?"


def test_long_lists_of_mistakes_are_cut(tmp_path: Path) -> None:
    found = bad(tmp_path, "code,label,parent\nr,R,\n" + "".join(f"c{i},,missing\n" for i in range(1000)))
    assert len(found) == 11
    assert found[-1][0] == 13
    assert "more rows" in found[-1][2]


def test_a_tree_without_roots(tmp_path: Path) -> None:
    ((line, _, what),) = bad(
        tmp_path, "code,label,parent\na,,b\nb,,c\nc,,d\nd,,e\ne,,f\nf,,g\ng,,a\nx,,a\ny,,x\n"
    )
    assert line == 2
    assert what == "the parents go in a circle: a > b > c > d > e > f > …"


def test_levels_have_a_limit(tmp_path: Path) -> None:
    chain = "code,label,parent\n0,,\n" + "".join(f"{i},,{i - 1}\n" for i in range(1, LEVEL_LIMIT))
    assert good(tmp_path, chain).levels == LEVEL_LIMIT
    ((_, _, what),) = bad(tmp_path, chain + f"x,,{LEVEL_LIMIT - 1}\n")
    assert "more than 64 levels" in what


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none.csv", "there is no such file"), (tmp_path, "this is a folder")):
        tree, problems = read_code_list(path)
        assert tree is None
        assert what in problems[0].what


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """Parents in a random order of rows: parents may stand before or after their children."""
    count = draw(st.integers(1, 40))
    parents = [draw(st.integers(-1, node - 1)) if node else -1 for node in range(count)]
    order = draw(st.permutations(range(count)))
    place = {node: row for row, node in enumerate(order)}
    return [-1 if parents[node] < 0 else place[parents[node]] for node in order]


@given(forests())
def test_breadth_first_is_what_a_queue_does(parents: list[int]) -> None:
    queue = [row for row, parent in enumerate(parents) if parent < 0]
    depths = dict.fromkeys(queue, 0)
    for row in queue:
        children = [child for child, parent in enumerate(parents) if parent == row]
        depths |= dict.fromkeys(children, depths[row] + 1)
        queue += children
    order, depth = breadth_first(np.array(parents))
    assert order.tolist() == queue
    assert depth.tolist() == [depths[row] for row in queue]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(-1, 11), min_size=12, max_size=12))
def test_circles_are_found_exactly_when_there_are_some(tmp_path: Path, parents: list[int]) -> None:
    """Any function from rows to rows: each circle is named once, at a row that lies on it."""

    def ends(row: int) -> bool:
        for _ in range(13):
            row = parents[row]
            if row < 0:
                return True
        return False

    def circle(row: int) -> frozenset[int] | None:
        seen, node = {row}, parents[row]
        while node >= 0 and node not in seen:
            seen.add(node)
            node = parents[node]
        return frozenset(seen) if node == row else None

    rows = "".join(f"c{row},,{'' if parent < 0 else f'c{parent}'}\n" for row, parent in enumerate(parents))
    tree, problems = read(tmp_path, f"code,label,parent\n{rows}")
    circles = {found for row in range(12) if (found := circle(row)) is not None}
    assert (tree is not None) == all(ends(row) for row in range(12)) == (not circles)
    assert {circle((problem.line or 0) - 2) for problem in problems} == circles
    assert len(problems) == len(circles)


def test_hundreds_of_thousands_of_codes_take_seconds(tmp_path: Path) -> None:
    """Linear: 300 000 codes; the limit is ten times what a quiet machine needs."""
    rows = ["0,Root,"] + [f"{i},Label {i},{i // 7}" for i in range(1, 300_000)]
    (tmp_path / "codes.csv").write_text("code,label,parent\n" + "\n".join(rows) + "\n")
    start = time.perf_counter()
    tree, problems = read_code_list(tmp_path / "codes.csv")
    assert time.perf_counter() - start < 10
    assert problems == []
    assert tree is not None
    assert tree.levels == 8  # the k-th level begins at 7^(k-1); 7^6 = 117 649 < 300 000 < 7^7
    assert (np.diff(tree.parents) >= 0).all()
