"""Comparing mechanisms on data that are public: data sets, error measures, suites of experiments."""
