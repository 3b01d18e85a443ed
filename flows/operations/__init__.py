"""Running an installation: server, worker, deployments, inboxes, and what Prefect is shown of a run."""
