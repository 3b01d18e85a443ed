"""A first spec for a file of data, from the names and types of its columns: no record is read."""
