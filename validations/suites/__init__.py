"""Great Expectations: the suites that judge microdata, counts and publications."""
