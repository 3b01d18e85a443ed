"""Arrival: drops of data in an inbox, each verified, claimed once, released, and put away."""
