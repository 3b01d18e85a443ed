"""Tumult Analytics: a grouped count over a public key set, on Spark, geometric noise.

    python tumult.py DATA.parquet DOMAIN.json OUTPUT

The key set is read from a file: ``KeySet.from_dict`` makes a Spark partition of every value of the first column.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

data, domain, output = sys.argv[1:]
columns = json.loads(Path(domain).read_text())

with tempfile.TemporaryDirectory() as folder:
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.warehouse.dir", folder)
        .config("spark.local.dir", folder)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    records = spark.read.parquet(data).select(*columns)
    keys = f"{folder}/keys.parquet"
    pd.DataFrame(itertools.product(*columns.values()), columns=list(columns)).to_parquet(keys)
    cells = spark.read.parquet(keys)
    session = Session.from_dataframe(
        privacy_budget=PureDPBudget(1),
        source_id="people",
        dataframe=records,
        protected_change=AddOneRow(),
    )
    query = QueryBuilder("people").groupby(KeySet.from_dataframe(cells)).count()
    session.evaluate(query, PureDPBudget(1)).write.parquet(output)
    spark.stop()
