"""A first spec for a data file, from the names and types of its columns; no record is read."""
