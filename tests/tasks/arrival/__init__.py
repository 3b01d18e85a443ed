"""Arrival, without Prefect."""
