"""Denoising of a measured table: post-processing that sees noisy cells and the law of their noise alone."""
