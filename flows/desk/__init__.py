"""The officer's desk: a web application on this machine, by the Python API, without a rule of its own."""
