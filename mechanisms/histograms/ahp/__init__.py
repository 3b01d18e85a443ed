"""AHP and its clusters."""
