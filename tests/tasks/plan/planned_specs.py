"""Specs to plan for, the counts that a published release of them has, and releases measured in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import SeededChannel
from mechanisms.inference import Hierarchy
from mechanisms.noise.synthetic import generator
from tasks.margins.error_model import level_error
from tasks.measure import Job, draw_job, finish_part, shares
from tasks.plan.planned_model import PlannedModel
from tasks.postprocess.estimate_files import measured_tree
from tasks.postprocess.postprocessing import PostProcessor
from tasks.postprocess.table_layout import Layout
from tasks.publish.read_release import Released
from tasks.runtime.run import without_data
from validations.domains.domains import HierarchyDomain
from validations.spec.load import Loaded, load_spec

AREAS = ["code,label,parent", "N,Nation,", *(f"{p},{p},N" for p in "ABC")]
AREAS += [f"{p}{number},{p}{number},{p}" for p in "ABC" for number in range(6 + ord(p) - ord("A"))]

PURE = 'budget: "1"'
ZCDP = 'definition: zcdp, delta: "1/1000000", budget: "1/8"'

SPEC = """\
product: small                       # comments stay where they are
dataset: people
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, relation: {relation}, {privacy}}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  age: {{integer: {{from: 0, to: 79, width: 10}}}}
  sex: {{categories: {{"1": male, "2": female}}}}
tables:
  - name: places                     # the first table
    dimensions: [area, age]
    # levels come after this line
  - {{name: ages, dimensions: [age, sex]}}
targets:
{targets}
{more}
"""
TARGETS = """\
  - {table: places, level: nation, margin: 60}
  - {table: places, level: place, margin: 25}
  - {table: ages, relative: "10%", at: 400}"""


def spec(
    folder: Path, privacy: str = PURE, *, relation: str = "add-remove", targets: str = TARGETS, more: str = ""
) -> Path:
    """Write the spec with these targets."""
    (folder / "areas.csv").write_text("\n".join(AREAS) + "\n")
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(privacy=privacy, relation=relation, targets=targets, more=more))
    return path


def loaded(folder: Path, privacy: str = PURE, **changes: str) -> Loaded:
    """Return the spec with these targets."""
    return load_spec(spec(folder, privacy, **changes))


def true_counts(made: Loaded, people: int, seed: int = 5) -> dict[str, NDArray[np.float64]]:
    """Return tables of invented people whose columns go together a little, (nodes, cells) each."""
    draw = generator(seed)
    chosen = {
        name: draw.choice(domain.size, people, p=draw.dirichlet(np.full(domain.size, 3.0)))
        for name, domain in made.domains.items()
    }
    found = {}
    for name, layout in PlannedModel.of(made).agreement.layouts.items():
        sizes = [domain.size for domain in layout.others]
        cells = np.ravel_multi_index([chosen[domain.name] for domain in layout.others], sizes)
        along = layout.along
        table = np.zeros((1 if along is None else len(along.parents), layout.cells))
        rows = np.zeros(people, np.int64) if along is None else along.leaves[chosen[along.name]]
        np.add.at(table, (rows, cells), 1)
        if along is not None:
            for block in Hierarchy(along.parents).up(layout.cells):
                table[block.parents] += block.total(table[block.children])
        found[name] = table[: layout.nodes]
    return found


def published(folder: Path, made: Loaded, counts: dict[str, NDArray[np.float64]]) -> Released:
    """Return a release with these counts, as it is read from its files."""
    folder.mkdir(exist_ok=True)
    for name, table in counts.items():
        lines = (f"{int(count)},1" for count in table.ravel())
        (folder / f"{name}.csv").write_text("count,margin\n" + "\n".join(lines) + "\n")
    whole = PlannedModel.of(made).loaded
    publication = whole.spec.publication.model_copy(update={"formats": ("csv",)})
    spoken = replace(whole, spec=whole.spec.model_copy(update={"publication": publication}))
    return Released(folder, {"release_id": "r-1"}, "a" * 64, spoken)


def errors_of_releases(
    made: Loaded, counts: dict[str, NDArray[np.float64]], releases: int
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """Yield the errors of releases of a spec, drawn, stored and finished as a release is."""
    with without_data(made) as run:
        post = PostProcessor.of(made)
        for seed in range(releases):
            parts: dict[str, dict[str, tuple[NDArray[Any], Any]]] = {}
            for table, level, loss, mechanism in shares(run):
                layout = post.agreement.layouts[table.name]
                true = counts[table.name][layout.cuts[level]].astype(np.int64).reshape(layout.shape(level))
                channel = SeededChannel(
                    loss, seed=f"{seed} {table.name}/{level}", definition=made.spec.privacy.definition
                )
                arrays: dict[str, NDArray[Any]] = {}
                part = draw_job(Job(table.name, level, loss, loss * 0, mechanism, true), channel, arrays)
                done = finish_part(json.loads(json.dumps(part)), arrays)
                parts.setdefault(table.name, {})[level] = done.release.values, level_error(done).variance
            measured = {
                name: measured_tree(post.agreement.layouts[name], each) for name, each in parts.items()
            }
            finished = post.finish(measured)
            yield {name: each.values - counts[name] for name, each in finished.items()}


def rows_of(made: Loaded, table: str, level: str) -> NDArray[np.int64]:
    """Return the nodes of a level of a table."""
    layout = Layout.of(made, next(each for each in made.spec.tables if each.name == table))
    if not isinstance(layout.along, HierarchyDomain):
        return np.array([0])
    return np.flatnonzero(layout.along.depth[: layout.nodes] == layout.along.levels.index(level))
