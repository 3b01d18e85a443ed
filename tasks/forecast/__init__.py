"""What every number of a spec will be worth, said before anything is paid. Opens no data."""
