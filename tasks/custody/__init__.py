"""Upkeep, backups and health checks of an installation."""
