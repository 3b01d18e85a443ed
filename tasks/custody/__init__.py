"""Keeping an installation for years: upkeep, backups, and health checks."""
