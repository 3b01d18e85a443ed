"""Post-processing: from noisy measurements to consistent, non-negative, whole tables."""
