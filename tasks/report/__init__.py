"""The report of a release: one page for people, every number of which is computed from the release."""
