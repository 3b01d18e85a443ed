"""Prefect flows, the command line and the officer's desk."""
