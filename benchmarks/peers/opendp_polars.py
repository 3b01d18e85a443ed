"""OpenDP in Polars: a grouped count over a public key set, integer Laplace noise.

    python opendp_polars.py DATA.parquet DOMAIN.json OUTPUT.parquet

A key set in memory is serialised with the plan for every step of the search for the scale, so that OpenDP asks
for large ones to be scanned from a file. Signed, or OpenDP would cut the noisy counts off at zero.
"""

import json
import sys
import tempfile
from pathlib import Path

import opendp.prelude as dp
import polars as pl

data, domain, output = sys.argv[1:]
columns = json.loads(Path(domain).read_text())
dp.enable_features("contrib")

records = pl.scan_parquet(data).select(list(columns))
types = records.collect_schema()
first, *others = (pl.DataFrame({name: values}, {name: types[name]}) for name, values in columns.items())
cells = first
for one in others:
    cells = cells.join(one, how="cross")

with tempfile.TemporaryDirectory() as folder:
    keys = Path(folder) / "keys.parquet"
    cells.write_parquet(keys)
    context = dp.Context.compositor(
        data=records,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    groups = context.query().group_by(list(columns)).agg(dp.len(signed=True).alias("count"))
    groups.with_keys(pl.scan_parquet(keys)).release().collect().write_parquet(output)
