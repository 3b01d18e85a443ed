"""diffprivlib: its histogram of many dimensions, truncated geometric noise.

    python ibm_diffprivlib.py DATA.parquet DOMAIN.json OUTPUT.parquet

It counts numbers, so that each value is replaced by its place in the domain before.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from diffprivlib.tools import histogramdd

data, domain, output = sys.argv[1:]
columns = json.loads(Path(domain).read_text())

table = pq.read_table(data, columns=list(columns))
places = [
    pc.index_in(table[name], value_set=pa.array(values).cast(table[name].type)).to_numpy()
    for name, values in columns.items()
]
sizes = [len(values) for values in columns.values()]
counts, _ = histogramdd(
    np.column_stack(places), epsilon=1.0, bins=sizes, range=[(-0.5, size - 0.5) for size in sizes]
)

keys = np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")
found = {
    name: pa.array(values).take(pa.array(each.ravel()))
    for (name, values), each in zip(columns.items(), keys, strict=True)
}
pq.write_table(pa.table({**found, "count": counts.ravel()}), output)
