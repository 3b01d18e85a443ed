"""Signing: a statement over every file of a release, and its verification."""
