"""The mechanisms: one file and one frozen dataclass each."""
