"""Specs to plan for, the counts that a published release of them has, and releases measured in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.noise_distributions import gaussian_variance, laplace_variance
from tabularium.tasks.margins.error_model import level_error
from tabularium.tasks.margins.measure_margins import measure_values
from tabularium.tasks.measure import Job, draw_job, finish_part, shares
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.tables import array_name
from tests.certificates import made_up
from tests.tasks.plan.invented_people import array_of, invented

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
    """Return the tables and arrays of invented people, (nodes, cells) each: see :func:`invented`."""
    chosen, values = invented(made, people, seed)
    layouts = PlannedModel.of(made).agreement.layouts
    return {name: array_of(made, layout, chosen, values) for name, layout in layouts.items()}


def published(folder: Path, made: Loaded, counts: dict[str, NDArray[np.float64]]) -> Released:
    """Return a release with these counts and what arrays say of measures, as it is read from its files."""
    folder.mkdir(exist_ok=True)
    whole = PlannedModel.of(made).loaded
    layouts = PlannedModel.of(made).agreement.layouts
    for table in whole.spec.tables:
        columns = {"count": counts[table.name].ravel()}
        for name in table.measures:
            array = array_name(table.name, name)
            columns[name] = measure_values(layouts[array], table.measures[name], counts[array]).ravel()
        heads = ",".join(f"{name},{'margin' if name == 'count' else f'{name}_margin'}" for name in columns)
        rows = zip(*columns.values(), strict=True)
        lines = (",".join(f"{number:.10g},1" for number in row) for row in rows)
        (folder / f"{table.name}.csv").write_text(heads + "\n" + "\n".join(lines) + "\n")
    publication = whole.spec.publication.model_copy(update={"formats": ("csv",)})
    spoken = replace(whole, spec=whole.spec.model_copy(update={"publication": publication}))
    return Released(folder, made_up(release_id="r-1"), "a" * 64, spoken)


def errors_of_releases(
    made: Loaded, counts: dict[str, NDArray[np.float64]], releases: int
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """Yield the errors of releases of a spec, drawn, stored and finished as a release is."""
    run = without_data(made)
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
            part = draw_job(
                Job(table.name, level, loss, loss * 0, mechanism, lambda true=true: true), channel, arrays
            )
            done = finish_part(json.loads(json.dumps(part)), arrays)
            parts.setdefault(table.name, {})[level] = done.release.values, level_error(done).variance
        measured = {name: measured_tree(post.agreement.layouts[name], each) for name, each in parts.items()}
        finished = post.finish(measured)
        yield {name: each.values - counts[name] for name, each in finished.items()}


def rows_of(made: Loaded, table: str, level: str) -> NDArray[np.int64]:
    """Return the nodes of a level of a table."""
    layout = Layout.of(made, next(each for each in made.spec.tables if each.name == table))
    if not isinstance(layout.along, HierarchyDomain):
        return np.array([0])
    return np.flatnonzero(layout.along.depth[: layout.nodes] == layout.along.levels.index(level))


def exact_variances(made: Loaded) -> dict[str, NDArray[np.float64]]:
    """Return the variances of all numbers after consistency, from what it makes of each noise by itself."""
    post, losses = PostProcessor.of(made), made.spec.losses
    arrays = {array.name: array.measured for array in made.spec.arrays}
    layouts = post.agreement.layouts
    variances = {}
    for (name, level), loss in losses.items():
        largest = arrays[name].sensitivity if arrays[name] else 1  # type: ignore[union-attr]
        pure = made.spec.privacy.definition == "pure"
        parameter = float(largest / loss) if pure else float(largest**2 / (2 * loss))
        variances[name, level] = (laplace_variance if pure else gaussian_variance)(parameter)
    found = {name: np.zeros((layout.nodes, layout.cells)) for name, layout in layouts.items()}
    for place, variance in variances.items():
        size = layouts[place[0]].cuts[place[1]].size * layouts[place[0]].cells
        for cell in range(size):
            measured = {}
            for name, layout in layouts.items():
                parts = {
                    level: (np.zeros((len(cut), layout.cells)), variances[name, level])
                    for level, cut in layout.cuts.items()
                }
                if name == place[0]:
                    parts[place[1]][0].flat[cell] = 1.0
                measured[name] = measured_tree(layout, parts)
            for name, each in post.agreement.consistent(measured, variances=False).estimates.items():
                found[name] += variance * each.values**2
    return found
