"""The stages of a release, one file or folder each."""
