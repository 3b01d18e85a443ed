"""How little budget meets wanted margins of error, and how it is shared out."""
