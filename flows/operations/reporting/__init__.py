"""What Prefect shows of a run: artifacts, progress, tags and events, all of them public."""
