"""The mechanisms: one file each, one frozen dataclass each."""
