"""The noisy measurements of a published table, and unbiased estimates from them.

Published counts are kept from falling below zero and made whole, which lifts small cells and pays for it in
large ones. What stands here has been made to agree by least squares and nothing else: it may be negative, has
decimals, and adds up to what is known of any larger group without bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import pyarrow as pa

from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.estimation import on_their_trees
from tabularium.tasks.postprocess.postprocessing import CONSISTENCY
from tabularium.tasks.public_folder import named, open_parquet
from tabularium.tasks.publish.frames import Labels
from tabularium.tasks.publish.measurement_files import FOLDER, indexed
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import readable
from tabularium.tasks.runtime.run import without_data
from tabularium.tasks.verify.subject import Failed, Skipped, Subject, parts_in
from tabularium.validations.redaction import bare_errors
from tabularium.validations.release_spec.tables import array_of


def measured(released: Released, name: str) -> pa.Table:
    """Return the noisy measurements of a table, all measured levels.

    Returns
    -------
    pyarrow.Table
        Level, codes and labels as in the published file, ``measured``, and the ``variance`` of its noise;
        null where the mechanism does not know it.

    Raises
    ------
    InputError
        They are withheld, or are no numbers of cells.
    PublicationError
        The folder does not hold what it names.
    """
    where, certificate = f"table {name}", released.certificate
    if certificate.measurements.withheld is not None:
        raise InputError(
            f"the noisy measurements are withheld: {certificate.measurements.withheld}",
            where=where,
            hint="use the published numbers and their margins",
        )
    layout = released.layouts.get(name)
    if layout is None:
        raise InputError("is a histogram, which measures no cells", where=where, hint="ask a table")
    variances, columns = certificate.tables[name].noise_variance or {}, []
    for level in layout.cuts:
        arrays = indexed(released.folder, name, level)["arrays"]
        shapes = [tuple(array["shape"]) for array in arrays.values()]
        if shapes != [layout.measured_shape(level)]:
            raise InputError(
                f"{certificate.tables[name].mechanism} measures something else than cells",
                where=where,
                hint="read the files below measurements, which measurements.json describes",
            )
        (about,) = arrays.values()
        with readable(released.folder), named(about["file"]):
            path = released.folder / FOLDER / about["file"]
            with open_parquet(path, rows=prod(about["shape"])) as file:
                rows = file.read()
        variance = pa.array(np.full(rows.num_rows, variances.get(level, np.nan)), from_pandas=True)
        columns.append(rows.append_column("variance", variance))
    return pa.concat_tables(columns, promote_options="permissive").unify_dictionaries()


@bare_errors
def unbiased(released: Released, name: str) -> pa.Table:
    """Return the consistent estimates of the counts and sums of a table, all levels.

    Returns
    -------
    pyarrow.Table
        Level, codes and labels as in the published file, ``estimate`` and its ``variance``: of the noise, and
        not of a sample; an estimate itself where many tables were made to agree. So is each sum and
        distinct count among the measures, by its name; the latter as measured, and null at a level that was
        not. Means, rates and quantiles are no linear functions of what was measured.

    Raises
    ------
    InputError
        The release has no measurements of the table whose noise is known.
    PublicationError
        The measurements are not what the certificate says.
    """
    where = f"table {name}"
    if name not in released.layouts:
        raise InputError("is a histogram, which has no such estimates", where=where, hint="ask a table")
    released.bounded()
    failure: InputError | PublicationError
    run = without_data(released.loaded)
    post = run.post
    together = [
        layout for layout in post.agreement.holding(name).layouts if layout in released.certificate.tables
    ]
    for other in together:
        if released.certificate.tables[other].noise_variance is None:
            raise InputError(
                f"the mechanism of {other} merges or drops what it measured, or draws it towards other "
                "numbers, so that nothing without bias can be made of it",
                where=where,
                hint="use the published numbers and their margins",
            )
    known = post.agreement.known if name in post.agreement.groups[0].layouts else {}
    for invariant in released.certificate.invariants:
        if invariant.name in known and invariant.beyond_chance:
            raise InputError(
                f"the measurements contradict invariant {invariant.name} beyond chance, with which all "
                "estimates would agree",
                where=where,
                hint="use the measurements themselves",
            )
    try:
        parts = parts_in(Subject(released.folder))
    except Skipped as reason:
        failure = InputError(f"needs {reason}", where=where, hint="use the published numbers")
    except Failed as reason:
        failure = PublicationError(str(reason), where=str(released.folder), hint="restore it from a copy")
    else:
        estimates, _ = on_their_trees(run.loaded, post, parts)
        agreed = post.apply(CONSISTENCY, estimates).estimates
        layout = released.layouts[name]
        rows = Labels(layout, np.arange(layout.nodes))
        columns = [*rows.of(0, rows.rows).items(), *_numbers(agreed[name], "estimate", "variance")]
        measures = layout.table.measures
        for measure in (measure for measure in measures if measures[measure].linear):
            array, unit = agreed[array_of(measures, name, measure)], float(measures[measure].grid)
            columns += _numbers(array, measure, f"{measure}_variance", unit)
        return pa.table([column for _, column in columns], names=[name for name, _ in columns])
    raise failure


def _numbers(
    estimate: Estimate, name: str, variance: str, unit: float = 1.0
) -> Iterator[tuple[str, pa.Array]]:
    """Yield estimates and variances as columns, null where there is none; estimates are times ``unit``."""
    spread = np.broadcast_to(estimate.variances, estimate.values.shape).reshape(-1)
    known = np.isfinite(spread)  # of what does not add up, levels that were not measured are not
    yield name, pa.array(unit * estimate.values.reshape(-1), mask=~known)
    yield variance, pa.array(unit**2 * spread, mask=~known)
