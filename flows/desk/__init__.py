"""The officer's desk: a web application on this machine. It calls the Python API and has no rule of its own."""
