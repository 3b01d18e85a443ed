"""Deployments of products in Prefect: work pool, deployment, schedule, upkeep and notifications."""
