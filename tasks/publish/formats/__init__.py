"""Publication formats: one class in one file (or folder) each, registered by name."""
