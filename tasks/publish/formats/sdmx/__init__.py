"""SDMX: SDMX-CSV 2.0 of every table and histogram, and one structure message about all of them."""
