"""Deploying a product: work pool, deployment, schedule, automation."""
