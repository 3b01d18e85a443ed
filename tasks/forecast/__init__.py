"""The accuracy to expect of every number of a spec, before anything is paid; opens no data."""
