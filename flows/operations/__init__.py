"""Running an installation: server, worker, deployments, inboxes, and what Prefect is told of a run."""
