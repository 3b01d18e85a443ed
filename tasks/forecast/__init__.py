"""Forecasts of the accuracy of every number of a spec, before anything is paid. Opens no data."""
