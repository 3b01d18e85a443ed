"""The release spec: its fields, how it is read from YAML, and the answers of `check`."""
