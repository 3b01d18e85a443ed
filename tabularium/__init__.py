"""Official statistics under differential privacy: release tables, and read what was released."""
