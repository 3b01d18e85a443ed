"""What Prefect is told of a run: artifacts, progress, tags, events; all of it public."""
