"""NoiseFirst, and the exact segmentations behind it."""
