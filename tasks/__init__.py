"""One stage, one file: a Prefect task is a thin shell over a plain function in the same file."""
