"""SmartNoise SQL: ``COUNT(*)`` by group, Laplace noise.

    python smartnoise.py DATA.parquet DOMAIN.json OUTPUT.parquet

A query returns only groups that the data have, and cuts off the rare ones, at the price of a δ. To publish the
zero cells too, the exact counts are made outside, by pandas over all cells, and handed over as
``pre_aggregated``; the cut is turned off, as the groups are public.
"""

import json
import sys
from pathlib import Path

import pandas as pd
import snsql

data, domain, output = sys.argv[1:]
columns = json.loads(Path(domain).read_text())
names = list(columns)

exact = (
    pd.read_parquet(data, columns=names)
    .value_counts()
    .reindex(pd.MultiIndex.from_product(columns.values(), names=names), fill_value=0)
    .rename("count_star")
    .reset_index()
)
table = {"row_privacy": True, "censor_dims": False, "clamp_counts": False}
for name, values in columns.items():
    table[name] = {"type": "int" if isinstance(values[0], int) else "string"}

reader = snsql.from_df(
    pd.DataFrame(columns=names),
    privacy=snsql.Privacy(epsilon=1.0),
    metadata={"": {"public": {"people": table}}},
)
query = f"SELECT {', '.join(names)}, COUNT(*) AS n FROM public.people GROUP BY {', '.join(names)}"
_, *rows = reader.execute(query, pre_aggregated=exact)
pd.DataFrame(rows, columns=[*names, "count"]).to_parquet(output)
