"""Checks of the release spec, of microdata, counts and publications."""
