"""Privelet, and the Haar transform in whole numbers."""
