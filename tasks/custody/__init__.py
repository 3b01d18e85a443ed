"""Keeping an installation for years: upkeep, backups, and whether all is well."""
