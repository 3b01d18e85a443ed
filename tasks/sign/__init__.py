"""Signing: a statement over every file of a release, and which keys count."""
