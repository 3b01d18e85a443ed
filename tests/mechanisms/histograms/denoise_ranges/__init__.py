"""Tests of denoising for ranges."""
