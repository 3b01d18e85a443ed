"""The smallest budget that meets wanted margins of error, and its shares."""
