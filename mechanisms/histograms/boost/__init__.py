"""Boost and the closed form of its trees."""
