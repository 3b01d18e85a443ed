"""Denoise: measures every cell, then removes as much noise as the noisy table allows."""
