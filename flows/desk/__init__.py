"""The officer's desk: a local web application on top of the Python API, without rules of its own."""
