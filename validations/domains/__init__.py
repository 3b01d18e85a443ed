"""Public domains of columns: code lists, levels, public numbers, and the encoding of raw values."""
