"""The report of a release: one page for people, computed from the release."""
