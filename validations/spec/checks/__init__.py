"""Checks of what must fit together in a spec, section by section."""
