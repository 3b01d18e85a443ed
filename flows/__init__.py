"""What runs: Prefect flows and the command line."""
