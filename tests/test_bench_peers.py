"""The arithmetic of the comparison with other libraries, and what a command is watched for."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import bench_peers
from benchmarks.bench_peers import (
    HERE,
    PEERS,
    Failed,
    Peer,
    domain_of,
    errors,
    line,
    places,
    published,
    run_peer,
    said,
)
from benchmarks.watched import end, family, watch

DOMAIN = {"area": ["A", "B"], "age": [0, 1, 2]}
TRUE = np.array([0, 2, 0, 5])


def test_errors_by_hand() -> None:
    """Published: 1, -1, none, 6; truly 0, 2, 0, 5."""
    found = errors(TRUE, np.array([3, 0, 1]), np.array([6, 1, -1]))
    assert found == {
        "cells": 3,
        "missing": 1,
        "error": (1 + 3 + 0 + 1) / 4,
        "zeros": (1 + 0) / 2,
        "cut": (1 + 2 + 0 + 1) / 4,
        "total": pytest.approx(6 / 7 - 1),
    }


@pytest.mark.parametrize(
    ("where", "numbers", "why"),
    [([0, 0], [1.0, 1.0], "1 cells are there more than once"), ([0, 1], [1.0, np.nan], "not finite")],
)
def test_what_cannot_be_compared_is_said(where: list[int], numbers: list[float], why: str) -> None:
    with pytest.raises(Failed, match=why):
        errors(TRUE, np.array(where), np.array(numbers))


def test_cells_are_numbered_whatever_the_type_of_their_keys() -> None:
    plain = pa.table({"age": [2, 0, 1], "area": ["A", "B", "B"]})
    coded = pa.table({"age": ["2", "0", "1"], "area": pa.array(["A", "B", "B"]).dictionary_encode()})
    assert places(plain, DOMAIN).tolist() == places(coded, DOMAIN).tolist() == [2, 3, 4]
    with pytest.raises(Failed, match="1 rows have a age"):
        places(pa.table({"area": ["A", "B"], "age": [0, 3]}), DOMAIN)


def test_the_domain_is_that_of_the_spec(tmp_path: Path) -> None:
    codes = tmp_path / "areas.csv"
    codes.write_text("code,label,parent\n0,All,\nA,,0\nB,,0\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"columns:\n  meshblock: {{hierarchy: {codes}}}\n  age: {{integer: {{from: 0, to: 2, width: 1}}}}\n"
        "  sex: {categories: [F]}\n  status: {categories: [x, y]}\n"
    )
    expected = {"meshblock": ["A", "B"], "age": [0, 1, 2], "sex": ["F"], "status": ["x", "y"]}
    assert domain_of(spec) == expected


def test_a_peer_that_fails_leaves_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint(len(sys.argv))\nsys.exit('no such thing\\n')\n")
    one = run_peer(Peer((), str(program)), tmp_path, tmp_path, tmp_path, tmp_path, 60)
    assert (one.code, one.output, bench_peers.last_line(one.complaint)) == (1, "4\n", "no such thing")
    with pytest.raises(Failed, match="what it wrote cannot be read"):
        published("x", one, tmp_path)
    with pytest.raises(Failed, match="not installed: no such thing"):
        said(sys.executable, str(program))
    row = {"records": 10, "name": "x", "version": "1", "seconds": 0.6, "mib": 9, "failed": "not done"}
    assert line(row).split() == ["10", "x", "1", "not", "done", "after", "1", "s,", "9", "MiB"]


def test_a_peer_whose_time_is_over_is_ended_with_all_that_it_started() -> None:
    endless = "import time; time.sleep(60)"
    assert watch([sys.executable, "-c", endless], {}, limit=0).code is None

    start = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {endless!r}]).pid, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{start}; {endless}"], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        found = dict(family(parent.pid))
        end(parent)
    assert set(found) == {parent.pid, child}
    assert found[parent.pid][0] > 2**20
    for _ in range(200):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the peer started still runs")


def test_programs_of_peers_stand_alone() -> None:
    ours = {path.name for path in HERE.parents[2].iterdir() if path.is_dir()}
    assert {path.name for path in HERE.glob("*.py")} == {peer.program for peer in PEERS.values()} | {
        "__init__.py"
    }
    for peer in PEERS.values():
        for node in ast.walk(ast.parse((HERE / peer.program).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & ours


def test_help_names_the_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_peers", "--help"])
    with pytest.raises(SystemExit, match="0"):
        bench_peers.main()
    said = capsys.readouterr().out
    assert all(option in said for option in ("--records", "--timeout", "--environments", "--json", *PEERS))
