"""Signing: a statement over every file of a release, and who may believe it."""
