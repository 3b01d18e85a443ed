"""Great Expectations: the suites that check microdata, counts and publications."""
