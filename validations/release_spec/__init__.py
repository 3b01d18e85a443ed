"""The release spec: its fields, how it is read from YAML, and what `check` says of it."""
