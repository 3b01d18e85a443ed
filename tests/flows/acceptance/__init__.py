"""An installation on a bad day: drops in bursts, and every part of it killed, closed or away in between."""
