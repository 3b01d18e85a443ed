"""Flows, the command line and the desk: everything that runs."""
