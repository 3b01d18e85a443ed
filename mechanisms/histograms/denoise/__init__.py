"""Denoise: every cell measured, then as much noise removed as the noisy table itself allows."""
