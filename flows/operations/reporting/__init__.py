"""Reports of a run to Prefect: artifacts, progress, tags, events; all of it public."""
