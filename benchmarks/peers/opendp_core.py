"""OpenDP, the core library: every record counted into its cell, integer Laplace noise on all cells.

    python opendp_core.py DATA.parquet DOMAIN.json OUTPUT.parquet

The sensitivity is derived by OpenDP from the records on (``count_by_categories``). Records have one column
there, so that the number of a record's cell is worked out before, row by row.
"""

import json
import sys
from math import prod
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

data, domain, output = sys.argv[1:]
columns = json.loads(Path(domain).read_text())
dp.enable_features("contrib")

table = pq.read_table(data, columns=list(columns))
cells = np.zeros(len(table), np.int64)
for name, values in columns.items():
    place = pc.index_in(table[name], value_set=pa.array(values).cast(table[name].type))
    cells = cells * len(values) + place.to_numpy()

categories = list(range(prod(map(len, columns.values()))))
records = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.symmetric_distance()
count = records >> dp.t.then_count_by_categories(categories, null_category=False, TOA=dp.i64)
noisy = dp.binary_search_chain(lambda scale: count >> dp.m.then_laplace(scale), d_in=1, d_out=1.0, T=float)

counts = noisy(cells)
keys = np.meshgrid(*(np.arange(len(values)) for values in columns.values()), indexing="ij")
found = {
    name: pa.array(values).take(pa.array(each.ravel()))
    for (name, values), each in zip(columns.items(), keys, strict=True)
}
pq.write_table(pa.table({**found, "count": counts}), output)
