"""Running an installation: server, worker, deployments, inboxes, and reports of a run to Prefect."""
