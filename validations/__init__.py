"""Checks of the release spec, microdata, counts and publication."""
