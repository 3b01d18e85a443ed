"""PipelineDP on its local backend: a count over public partitions, Laplace noise.

    python openmined_pipelinedp.py DATA.parquet DOMAIN.json OUTPUT.parquet

One record is one privacy unit, which PipelineDP is told (``contribution_bounds_already_enforced``), so that it
need not group by units.
"""

import itertools
import json
import sys
from pathlib import Path

import pipeline_dp
import pyarrow as pa
import pyarrow.parquet as pq

data, domain, output = sys.argv[1:]
columns = json.loads(Path(domain).read_text())

records = list(
    zip(*(column.to_pylist() for column in pq.read_table(data, columns=list(columns)).columns), strict=True)
)
accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
counts = engine.aggregate(
    records,
    pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        contribution_bounds_already_enforced=True,
    ),
    pipeline_dp.DataExtractors(partition_extractor=lambda record: record, value_extractor=lambda _: 0),
    public_partitions=list(itertools.product(*columns.values())),
)
accountant.compute_budgets()

keys, numbers = zip(*((key, found.count) for key, found in counts), strict=True)
found = dict(zip(columns, map(pa.array, zip(*keys, strict=True)), strict=True))
pq.write_table(pa.table({**found, "count": numbers}), output)
