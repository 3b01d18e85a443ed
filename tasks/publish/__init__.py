"""Publication: the folder of a release, its tables, measurements and certificate."""
