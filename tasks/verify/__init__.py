"""Verification of a published release from its folder, offline."""
