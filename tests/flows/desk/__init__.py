"""Tests of the officer's desk."""
